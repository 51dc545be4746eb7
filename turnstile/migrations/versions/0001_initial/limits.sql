-- What operators have set in place of the declared limits. An empty value stands for all values of the key.

CREATE TABLE limit_overrides (
    limit_name  text NOT NULL,
    value       text NOT NULL DEFAULT '',
    concurrency integer,
    rate        double precision,
    burst       integer,
    set_by      text NOT NULL,
    reason      text,
    set_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (limit_name, value)
);
