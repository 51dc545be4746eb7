"""The traces that redrives have ended, and the index by which the failures of each queue are read."""

from alembic import op

revision = "0008"
down_revision = "0005"

# The index has FAILED turns only, but its build reads the whole of `turns`. Where that is large, make it by hand beforehand,
# CONCURRENTLY, by the words that stand here. Its predicate is an expression that no other statement has: none takes it for its
# own.
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
CREATE INDEX IF NOT EXISTS turns_failed_at ON turns (queue, finished_at) WHERE ('' || status) = 'FAILED';
"""

DOWNGRADE = """
DROP INDEX turns_failed_at;
DROP TABLE turn_traces;
"""


def upgrade() -> None:
    op.execute(UPGRADE)


def downgrade() -> None:
    op.execute(DOWNGRADE)
