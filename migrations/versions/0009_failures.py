"""The index by which the failures of each queue are read."""

from alembic import op

from turnstile.migrations.giving_way import build_index

revision = "0009"
down_revision = "0008"

# An expression, for the reason that 0004 gives. Not the one that `statements.head` has: a hot statement would take this index.
ON = "turns (queue, finished_at) WHERE (status || '') = 'FAILED'"

DOWNGRADE = """
DROP INDEX turns_failed_at;
"""


def upgrade() -> None:
    build_index("turns_failed_at", ON)


def downgrade() -> None:
    op.execute(DOWNGRADE)
