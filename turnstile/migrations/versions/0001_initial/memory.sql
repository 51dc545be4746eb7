-- The durable items of the working memory of sessions.

CREATE SEQUENCE memory_version_seq AS bigint;

-- A deleted item stays for a while, without content.
CREATE TABLE memory_items (
    tenant_id  text NOT NULL,
    session_id text NOT NULL,
    kind       text NOT NULL,
    key        text NOT NULL,
    content    json,
    context    text,
    priority   integer NOT NULL,
    tags       text[] NOT NULL,
    version    bigint NOT NULL,
    write_id   uuid NOT NULL,
    fence      bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, session_id, kind, key)
);
CREATE INDEX memory_items_expires_at ON memory_items (expires_at);
