"""The traces of runs that a redrive or a retry has ended."""

from alembic import op

revision = "0008"
down_revision = "0007"

UPGRADE = """
CREATE TABLE turn_traces (
    tenant_id       text NOT NULL,
    turn_id         uuid NOT NULL,
    turn_created_at timestamptz NOT NULL,
    generation      integer NOT NULL,
    trace_id        text NOT NULL,
    span_id         text NOT NULL,
    parent_span_id  text,
    ended_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (turn_id, tenant_id, turn_created_at, generation)
);
CREATE INDEX turn_traces_trace_id ON turn_traces (trace_id);
"""

DOWNGRADE = """
DROP TABLE turn_traces;
"""


def upgrade() -> None:
    op.execute(UPGRADE)


def downgrade() -> None:
    op.execute(DOWNGRADE)
