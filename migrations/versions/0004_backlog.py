"""The index by which the backlog of each queue is read."""

from alembic import op

from turnstile.migrations.giving_way import build_index

revision = "0004"
down_revision = "0003"

# The predicate is an expression on purpose. A plain `status = 'PENDING'` would make this an index that the hot statements may
# choose, and one that is chosen while the table is empty stays chosen: their plans are pinned.
ON = "turns (queue, (coalesce(execute_at, created_at))) WHERE (status || '') = 'PENDING'"

DOWNGRADE = """
DROP INDEX turns_waiting;
"""


def upgrade() -> None:
    build_index("turns_waiting", ON)


def downgrade() -> None:
    op.execute(DOWNGRADE)
