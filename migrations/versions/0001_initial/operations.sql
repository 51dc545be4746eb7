-- For operators: the running workers, the paused queues, and the record of redrives.

CREATE TABLE workers (
    worker_id     text NOT NULL PRIMARY KEY,
    queue         text NOT NULL,
    host          text NOT NULL,
    pid           integer NOT NULL,
    slots         integer NOT NULL,
    busy          integer NOT NULL DEFAULT 0,
    queue_latency_seconds double precision NOT NULL DEFAULT 0,
    draining      boolean NOT NULL DEFAULT false,
    started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When a relay found it lost, and said so. NULL again when it comes back.
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
    turn_ids     uuid[] NOT NULL DEFAULT '{}'::uuid[],
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at  timestamptz
);
