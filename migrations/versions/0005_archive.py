"""Where ended turns go that nothing depends on any more."""

from alembic import op

revision = "0005"
down_revision = "0004"

# One row a turn, with all that belonged to it as it stood. Whole rows as jsonb, so that a column that `turns` gets later changes
# nothing here; columns are only what is looked up by. Rows are written in the order of `archived_at`, so a small BRIN index finds
# the oldest, which operators delete.
UPGRADE = """
CREATE TABLE archived_turns (
    id              uuid NOT NULL,
    tenant_id       text NOT NULL,
    session_id      text NOT NULL,
    trace_id        text NOT NULL,
    parent_turn_id  uuid,
    ended_at        timestamptz NOT NULL,
    archived_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    turn            jsonb NOT NULL,
    messages        jsonb NOT NULL,
    attempts        jsonb NOT NULL,
    recorded_values jsonb NOT NULL,
    webhooks        jsonb NOT NULL,
    PRIMARY KEY (id, tenant_id, ended_at)
);
CREATE INDEX archived_turns_session ON archived_turns (tenant_id, session_id);
CREATE INDEX archived_turns_trace_id ON archived_turns (trace_id);
CREATE INDEX archived_turns_parent ON archived_turns (parent_turn_id) WHERE parent_turn_id IS NOT NULL;
CREATE INDEX archived_turns_archived_at ON archived_turns USING brin (archived_at) WITH (autosummarize = on);
"""

DOWNGRADE = """
DROP TABLE archived_turns;
"""


def upgrade() -> None:
    op.execute(UPGRADE)


def downgrade() -> None:
    op.execute(DOWNGRADE)
