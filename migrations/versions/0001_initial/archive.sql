-- Where the turns of sessions at rest go. A row is a turn with all that belonged to it. Whole rows are kept as json, so that a column
-- that `turns` gets later changes nothing here; the columns are what is looked up by. turnstile/archive/partitions.py makes the
-- months as they are needed.

CREATE TABLE archived_turns (
    id              uuid NOT NULL,
    tenant_id       text NOT NULL,
    session_id      text NOT NULL,
    trace_id        text NOT NULL,
    parent_turn_id  uuid,
    ended_at        timestamptz NOT NULL,
    archived_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    turn            json NOT NULL,
    messages        json NOT NULL,
    attempts        json NOT NULL,
    recorded_values json NOT NULL,
    webhooks        json NOT NULL,
    PRIMARY KEY (id, ended_at)
) PARTITION BY RANGE (ended_at);
CREATE INDEX archived_turns_session ON archived_turns (tenant_id, session_id);
CREATE INDEX archived_turns_trace_id ON archived_turns (trace_id);
CREATE INDEX archived_turns_parent ON archived_turns (parent_turn_id) WHERE parent_turn_id IS NOT NULL;
