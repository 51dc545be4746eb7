-- By these rows a repeated request finds the first one, and the submit and the cancel of a chosen id find each other.

-- `answer` has no message content.
CREATE TABLE submissions (
    tenant_id   text NOT NULL,
    key         text NOT NULL,
    fingerprint bytea NOT NULL,
    turn_id     uuid NOT NULL,
    answer      jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, key)
);
CREATE INDEX submissions_created_at ON submissions (created_at);

CREATE TABLE chosen_ids (
    tenant_id    text NOT NULL,
    turn_id      uuid NOT NULL,
    submitted_at timestamptz,
    canceled_at  timestamptz,
    reason       text,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, turn_id)
);
CREATE INDEX chosen_ids_created_at ON chosen_ids (created_at);
