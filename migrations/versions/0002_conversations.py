"""What conversations need around the spine: children, recorded values, cancels before their submit, webhooks."""

from alembic import op

revision = "0002"
down_revision = "0001"

UPGRADE = """
ALTER TABLE turns
    ADD COLUMN kind        text NOT NULL DEFAULT 'turn',
    ADD COLUMN child_key   text,
    ADD COLUMN joining     uuid[],
    ADD COLUMN join_policy text,
    ADD COLUMN webhook_url text,
    ADD CONSTRAINT turns_kind_known CHECK (kind IN ('turn', 'compensation'));
CREATE INDEX turns_parent ON turns (parent_turn_id) WHERE parent_turn_id IS NOT NULL;
CREATE INDEX turns_joining ON turns (id) WHERE joining IS NOT NULL;

CREATE TABLE turn_values (
    turn_id    uuid NOT NULL,
    key        text NOT NULL,
    value      jsonb NOT NULL,
    fence      bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (turn_id, key)
);

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

-- Few, and looked for by the doctor and by whoever asks what waits for a person.
CREATE INDEX sessions_halted ON sessions (halted_by) WHERE halted_by IS NOT NULL;

CREATE TABLE webhooks (
    turn_id      uuid NOT NULL,
    generation   integer NOT NULL,
    url          text NOT NULL,
    event        jsonb NOT NULL,
    due_at       timestamptz,
    tries        integer NOT NULL DEFAULT 0,
    delivered_at timestamptz,
    error        text,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (turn_id, generation)
);
CREATE INDEX webhooks_due_at ON webhooks (due_at) WHERE due_at IS NOT NULL;

-- However a turn ends, its webhook is owed in the same commit. The event is written down here, because the row moves on (a
-- redrive), and because each try must say the same. No error text and nothing that was said: the address is the client's own.
CREATE FUNCTION turns_owe_webhook() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO webhooks (turn_id, generation, url, due_at, event)
    VALUES (NEW.id, NEW.generation, NEW.webhook_url, clock_timestamp(), jsonb_build_object(
        'id', NEW.id, 'session_id', NEW.session_id, 'seq', NEW.seq, 'queue', NEW.queue, 'status', NEW.status,
        'generation', NEW.generation, 'attempt', NEW.attempt, 'error_class', NEW.error_class,
        'cancel_reason', NEW.cancel_reason, 'trace_id', NEW.trace_id, 'metadata', NEW.metadata,
        'created_at', NEW.created_at, 'started_at', NEW.started_at, 'finished_at', NEW.finished_at))
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

-- A turn without an address pays for the comparison, and no more.
CREATE TRIGGER turns_owe_webhook AFTER UPDATE OF status ON turns FOR EACH ROW
    WHEN (NEW.webhook_url IS NOT NULL AND NEW.status IN ('SUCCEEDED', 'FAILED', 'CANCELED') AND OLD.status <> NEW.status)
    EXECUTE FUNCTION turns_owe_webhook();
CREATE TRIGGER turns_owe_webhook_at_birth AFTER INSERT ON turns FOR EACH ROW
    WHEN (NEW.webhook_url IS NOT NULL AND NEW.status = 'CANCELED') EXECUTE FUNCTION turns_owe_webhook();

-- A turn whose cancel came before its submit is born CANCELED.
DROP TRIGGER turns_legal_birth ON turns;
CREATE TRIGGER turns_legal_birth BEFORE INSERT ON turns
    FOR EACH ROW WHEN (NEW.status NOT IN ('PENDING', 'CANCELED')) EXECUTE FUNCTION turns_refuse_illegal_birth();
"""

DOWNGRADE = """
DROP TRIGGER turns_legal_birth ON turns;
CREATE TRIGGER turns_legal_birth BEFORE INSERT ON turns
    FOR EACH ROW WHEN (NEW.status <> 'PENDING') EXECUTE FUNCTION turns_refuse_illegal_birth();
DROP TRIGGER turns_owe_webhook ON turns;
DROP TRIGGER turns_owe_webhook_at_birth ON turns;
DROP FUNCTION turns_owe_webhook;
DROP INDEX sessions_halted;
DROP TABLE webhooks, chosen_ids, turn_values;
ALTER TABLE turns
    DROP COLUMN kind, DROP COLUMN child_key, DROP COLUMN joining, DROP COLUMN join_policy, DROP COLUMN webhook_url;
"""


def upgrade() -> None:
    op.execute(UPGRADE)


def downgrade() -> None:
    op.execute(DOWNGRADE)
