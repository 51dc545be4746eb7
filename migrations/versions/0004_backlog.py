"""The index by which the backlog of each queue is read."""

from alembic import op

revision = "0004"
down_revision = "0003"

# The predicate is an expression on purpose. A plain `status = 'PENDING'` would make this an index that the hot statements may
# choose, and one that is chosen while the table is empty stays chosen: their plans are pinned.
UPGRADE = """
CREATE INDEX turns_waiting ON turns (queue, (coalesce(execute_at, created_at))) WHERE (status || '') = 'PENDING';
"""

DOWNGRADE = """
DROP INDEX turns_waiting;
"""


def upgrade() -> None:
    op.execute(UPGRADE)


def downgrade() -> None:
    op.execute(DOWNGRADE)
