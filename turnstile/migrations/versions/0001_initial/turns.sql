-- Sessions and turns: the status table. turnstile/schema.py says what each column means. There are no foreign keys (ADR 0011): they
-- would lock the parent row on every insert.

-- One sequence for all turns: fences only need to rise.
CREATE SEQUENCE fence_seq AS bigint;

CREATE TABLE sessions (
    tenant_id      text NOT NULL,
    session_id     text NOT NULL,
    last_seq       bigint NOT NULL DEFAULT 0,
    halted_by      uuid,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, session_id)
) WITH (fillfactor = 80);

-- Halted sessions are few. The doctor and the attention report look for them.
CREATE INDEX sessions_halted ON sessions (halted_by) WHERE halted_by IS NOT NULL;

CREATE TABLE turns (
    id                  uuid NOT NULL PRIMARY KEY,
    tenant_id           text NOT NULL,
    session_id          text NOT NULL,
    seq                 bigint,
    queue               text NOT NULL,
    status              text NOT NULL DEFAULT 'PENDING',
    attempt             integer NOT NULL DEFAULT 0,
    failures            integer NOT NULL DEFAULT 0,
    crashes             integer NOT NULL DEFAULT 0,
    max_attempts        integer,
    generation          integer NOT NULL DEFAULT 1,
    fence               bigint NOT NULL DEFAULT 0,
    claim_id            uuid,
    lease_until         timestamptz,
    worker_id           text,
    execute_at          timestamptz,
    send_at             timestamptz,
    sends               integer NOT NULL DEFAULT 0,
    expires_at          timestamptz NOT NULL,
    timeout_seconds     double precision,
    cancel_requested_at timestamptz,
    cancel_reason       text,
    error_class         text,
    error               text,
    dead_lettered_at    timestamptz,
    dropped_at        timestamptz,
    dropped_by        text,
    trace_id            text NOT NULL,
    span_id             text NOT NULL,
    parent_span_id      text,
    parent_turn_id      uuid,
    metadata            json NOT NULL DEFAULT '{}'::json,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    queued_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    first_started_at    timestamptz,
    started_at          timestamptz,
    finished_at         timestamptz,
    kind                text NOT NULL DEFAULT 'turn',
    child_key           text,
    joining             uuid[],
    join_policy         text,
    webhook_url         text,
    counts_from         timestamptz,
    CONSTRAINT turns_status_known CHECK (status IN ('PENDING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED')),
    CONSTRAINT turns_kind_known CHECK (kind IN ('turn', 'compensation')),
    CONSTRAINT turns_lease_while_running CHECK ((status = 'RUNNING') = (lease_until IS NOT NULL)),
    CONSTRAINT turns_finished_when_ended CHECK ((status IN ('PENDING', 'RUNNING')) = (finished_at IS NULL)),
    -- The relay looks at every PENDING turn again.
    CONSTRAINT turns_pending_has_send_at CHECK (status <> 'PENDING' OR send_at IS NOT NULL),
    CONSTRAINT turns_running_has_seq CHECK (status <> 'RUNNING' OR seq IS NOT NULL)
) WITH (
    fillfactor = 70,  -- room for the heartbeats' HOT updates
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05
);

-- No index names `lease_until`, or every heartbeat would write to it.
CREATE UNIQUE INDEX turns_session_seq ON turns (tenant_id, session_id, seq);

-- One turn at a time per session: this index ensures it, not the Redis lock.
CREATE UNIQUE INDEX turns_running ON turns (tenant_id, session_id) WHERE status = 'RUNNING';

-- The head of a session, however many turns it has.
CREATE INDEX turns_open ON turns (tenant_id, session_id, seq)
    WHERE status IN ('PENDING', 'RUNNING') AND seq IS NOT NULL;

-- The rows that the relay sends, and those that it places: few of the rows with a `send_at` are scheduled.
CREATE INDEX turns_send_at ON turns (queue, send_at) WHERE send_at IS NOT NULL;
CREATE INDEX turns_scheduled ON turns (queue, send_at) WHERE seq IS NULL AND status = 'PENDING';

-- The scheduled turns of a tenant, for the caps on open turns. An expression, so that no hot statement can use it.
CREATE INDEX turns_scheduled_of ON turns (tenant_id, session_id) WHERE seq IS NULL AND (status || '') = 'PENDING';

-- `dlq list` and redrive.
CREATE INDEX turns_failed ON turns (queue, id) WHERE status = 'FAILED';

-- The predicates of the next three are expressions, so that the hot statements can't use these indexes. Their plans are pinned: an
-- index that is chosen while the table is empty stays chosen.
-- The failures of a queue that an operator has not given up, the newest first.
CREATE INDEX turns_failed_at ON turns (queue, finished_at) WHERE (status || '') = 'FAILED' AND dropped_at IS NULL;
-- The backlog of a queue, the oldest first.
CREATE INDEX turns_waiting ON turns (queue, (coalesce(execute_at, created_at))) WHERE (status || '') = 'PENDING';
-- The turns that workers take over: marked as lost, or waiting after a crash. A RUNNING turn with a valid lease has no `send_at`, so
-- the index is nearly empty.
CREATE INDEX turns_to_take_over ON turns (queue, crashes, id)
    WHERE (status || '') = 'RUNNING' AND send_at IS NOT NULL OR (status || '') = 'PENDING' AND crashes > 0;

-- Turns with a head start (`priority_seconds`) that wait, in the order in which they come before the messages.
CREATE INDEX turns_ahead ON turns (queue, counts_from) WHERE (status || '') = 'PENDING' AND seq IS NOT NULL AND counts_from IS NOT NULL;

-- The ended turns of a queue by their end: the oldest, which the retention deletes, and the newest (`turnstile stats`). Once new rows take
-- the room of deleted ones, a BRIN index would find neither.
CREATE INDEX turns_finished_at ON turns (queue, finished_at) WHERE finished_at IS NOT NULL;

CREATE INDEX turns_trace_id ON turns (trace_id);
CREATE INDEX turns_parent ON turns (parent_turn_id) WHERE parent_turn_id IS NOT NULL;

-- Parents that wait for their children. The relay looks for them every few seconds.
CREATE INDEX turns_joining ON turns (id) WHERE joining IS NOT NULL;

-- A tenant's list: without it, a page of a small tenant would read the turns of all.
CREATE INDEX turns_tenant_created ON turns (tenant_id, created_at, id);
