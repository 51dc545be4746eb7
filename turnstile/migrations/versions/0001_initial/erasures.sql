-- What is being erased, and what has been: a session, or all sessions of a tenant (`session_id` NULL), one row for each of which is a
-- part of that.

CREATE TABLE erasures (
    id           uuid NOT NULL PRIMARY KEY,
    tenant_id    text NOT NULL,
    session_id   text,
    part_of      uuid,
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    up_to_seq    bigint,
    reached      text,
    turns        bigint NOT NULL DEFAULT 0,
    finished_at  timestamptz
);
CREATE UNIQUE INDEX erasures_open ON erasures (tenant_id, (coalesce(session_id, ''))) WHERE finished_at IS NULL;
CREATE INDEX erasures_due_at ON erasures (due_at) WHERE finished_at IS NULL;
CREATE INDEX erasures_part_of ON erasures (part_of) WHERE part_of IS NOT NULL;
