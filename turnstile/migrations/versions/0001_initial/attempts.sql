-- The earlier claims and runs of turns. A turn's own row has only the present ones.

CREATE TABLE turn_attempts (
    turn_id     uuid NOT NULL,
    attempt     integer NOT NULL,
    fence       bigint NOT NULL,
    generation  integer NOT NULL,
    worker_id   text,
    release     text NOT NULL DEFAULT '',
    due_at      timestamptz,
    started_at  timestamptz,
    finished_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    outcome     text NOT NULL,
    error_class text,
    error       text,
    traceback   text,
    PRIMARY KEY (turn_id, attempt, fence)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- The traces of runs that a redrive or a retry has ended.
CREATE TABLE turn_traces (
    tenant_id       text NOT NULL,
    turn_id         uuid NOT NULL,
    turn_created_at timestamptz NOT NULL,
    generation      integer NOT NULL,
    trace_id        text NOT NULL,
    span_id         text NOT NULL,
    parent_span_id  text,
    ended_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (turn_id, tenant_id, turn_created_at, generation)
);
CREATE INDEX turn_traces_trace_id ON turn_traces (trace_id);
