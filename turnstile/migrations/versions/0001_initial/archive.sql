-- Ended turns on which nothing depends. A row has a turn and its rows of the other tables as json, so that a new column of `turns`
-- changes nothing here. The columns are for look-ups.

CREATE TABLE archived_turns (
    id              uuid NOT NULL,
    tenant_id       text NOT NULL,
    session_id      text NOT NULL,
    queue           text NOT NULL,
    trace_id        text NOT NULL,
    parent_turn_id  uuid,
    ended_at        timestamptz NOT NULL,
    archived_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    turn            json NOT NULL,
    messages        json NOT NULL,
    attempts        json NOT NULL,
    recorded_values json NOT NULL,
    webhooks        json NOT NULL,
    PRIMARY KEY (id, tenant_id, ended_at)
);
CREATE INDEX archived_turns_session ON archived_turns (tenant_id, session_id);
CREATE INDEX archived_turns_trace_id ON archived_turns (trace_id);
CREATE INDEX archived_turns_parent ON archived_turns (parent_turn_id) WHERE parent_turn_id IS NOT NULL;
-- The oldest of a queue, which the retention deletes.
CREATE INDEX archived_turns_ended_at ON archived_turns (queue, ended_at);
