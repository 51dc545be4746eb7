-- Who did what. The programs only add rows and read them; retention alone deletes them.

CREATE TABLE audit (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind       text NOT NULL,
    actor      text NOT NULL,
    tenant_id  text,
    subject    text NOT NULL,
    counts     jsonb NOT NULL DEFAULT '{}'::jsonb,
    reason     text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX audit_created_at ON audit (created_at);
