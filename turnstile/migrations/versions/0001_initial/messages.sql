-- Messages, and the values of `ctx.once`. json and not jsonb: a value is returned as the text that was stored, with its numbers and
-- the order of its keys. jsonb writes `1e308` with 309 digits.
--
-- The retention deletes a part of the rows every day. At Postgres' own 20 % the dead ones of weeks would stay.

CREATE TABLE messages (
    turn_id    uuid NOT NULL,
    ordinal    integer NOT NULL,
    role       text NOT NULL,
    kind       text NOT NULL DEFAULT 'message',
    content    json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (turn_id, ordinal),
    CONSTRAINT messages_role_known CHECK (role IN ('user', 'assistant'))
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE turn_values (
    turn_id    uuid NOT NULL,
    key        text NOT NULL,
    value      json NOT NULL,
    fence      bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (turn_id, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
