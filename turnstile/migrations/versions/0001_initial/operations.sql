-- For operators: the running workers, the paused queues, and the record of redrives, retries, skips and drops.

CREATE TABLE workers (
    worker_id     text NOT NULL PRIMARY KEY,
    queue         text NOT NULL,
    host          text NOT NULL,
    pid           integer NOT NULL,
    version       text NOT NULL DEFAULT '',
    -- The handler's, where `version` is Turnstile's.
    release       text NOT NULL DEFAULT '',
    slots         integer NOT NULL,
    busy          integer NOT NULL DEFAULT 0,
    queue_latency_seconds double precision NOT NULL DEFAULT 0,
    draining      boolean NOT NULL DEFAULT false,
    -- For how long no receive has returned, as of `seen_at`.
    deaf_for_seconds double precision NOT NULL DEFAULT 0,
    -- For how long the event loop has been blocked, as of `seen_at`.
    blocked_for_seconds double precision NOT NULL DEFAULT 0,
    -- For how long no call but the heartbeat's has been answered, as of `seen_at`.
    starved_for_seconds double precision NOT NULL DEFAULT 0,
    -- Turns that it runs and could not renew, because another transaction had locked their rows, as of `seen_at`.
    unrenewed     uuid[] NOT NULL DEFAULT '{}',
    -- The turn whose handler blocks it, if that is known.
    blocked_by    uuid,
    -- The worker's own: others may have another one.
    lease_seconds double precision NOT NULL DEFAULT 30,
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
    matched      integer NOT NULL DEFAULT 0,
    turn_ids     uuid[] NOT NULL DEFAULT '{}'::uuid[],
    sent         integer NOT NULL DEFAULT 0,
    unsent       integer NOT NULL DEFAULT 0,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at  timestamptz,
    -- NULL while the command runs, and for ever if it was killed.
    outcome      text,
    reason       text,
    CONSTRAINT redrives_outcome_known CHECK (outcome IN ('finished', 'stopped', 'broken_off'))
);
