-- For operators: the running workers, the paused queues, and the record of redrives, retries, skips and drops.

CREATE TABLE workers (
    worker_id     text NOT NULL PRIMARY KEY,
    queue         text NOT NULL,
    host          text NOT NULL,
    pid           integer NOT NULL,
    version       text NOT NULL DEFAULT '',
    release       text NOT NULL DEFAULT '',
    slots         integer NOT NULL,
    busy          integer NOT NULL DEFAULT 0,
    queue_latency_seconds double precision NOT NULL DEFAULT 0,
    draining      boolean NOT NULL DEFAULT false,
    deaf_for_seconds double precision NOT NULL DEFAULT 0,
    blocked_for_seconds double precision NOT NULL DEFAULT 0,
    starved_for_seconds double precision NOT NULL DEFAULT 0,
    unrenewed     uuid[] NOT NULL DEFAULT '{}',
    blocked_by    uuid,
    broken_by     text,
    lease_seconds double precision NOT NULL DEFAULT 30,
    started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    lost_at       timestamptz
);

CREATE TABLE paused_queues (
    queue     text NOT NULL PRIMARY KEY,
    paused_by text NOT NULL,
    reason    text,
    paused_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE redrives (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue        text,
    requested_by text NOT NULL,
    filter       jsonb NOT NULL,
    matched      integer NOT NULL DEFAULT 0,
    turn_ids     uuid[] NOT NULL DEFAULT '{}'::uuid[],
    sent         integer NOT NULL DEFAULT 0,
    unsent       integer NOT NULL DEFAULT 0,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at  timestamptz,
    outcome      text,
    reason       text,
    CONSTRAINT redrives_outcome_known CHECK (outcome IN ('finished', 'stopped', 'broken_off'))
);
