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

CREATE TABLE webhooks (
    turn_id      uuid NOT NULL,
    generation   integer NOT NULL,
    url          text NOT NULL,
    due_at       timestamptz,
    tries        integer NOT NULL DEFAULT 0,
    delivered_at timestamptz,
    error        text,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (turn_id, generation)
);
CREATE INDEX webhooks_due_at ON webhooks (due_at) WHERE due_at IS NOT NULL;

-- A turn whose cancel came before its submit is born CANCELED.
DROP TRIGGER turns_legal_birth ON turns;
CREATE TRIGGER turns_legal_birth BEFORE INSERT ON turns
    FOR EACH ROW WHEN (NEW.status NOT IN ('PENDING', 'CANCELED')) EXECUTE FUNCTION turns_refuse_illegal_birth();
"""

DOWNGRADE = """
DROP TRIGGER turns_legal_birth ON turns;
CREATE TRIGGER turns_legal_birth BEFORE INSERT ON turns
    FOR EACH ROW WHEN (NEW.status <> 'PENDING') EXECUTE FUNCTION turns_refuse_illegal_birth();
DROP TABLE webhooks, chosen_ids, turn_values;
ALTER TABLE turns
    DROP COLUMN kind, DROP COLUMN child_key, DROP COLUMN joining, DROP COLUMN join_policy, DROP COLUMN webhook_url;
"""


def upgrade() -> None:
    op.execute(UPGRADE)


def downgrade() -> None:
    op.execute(DOWNGRADE)
