"""The index by which workers find lost turns."""

from alembic import op

from turnstile.migrations.giving_way import build_index

revision = "0006"
down_revision = "0005"

# An expression, for the reason that 0004 gives. RUNNING turns whose lease holds have no `send_at`, so the index is nearly empty.
ON = """turns (queue, crashes, id)
    WHERE (status || '') = 'RUNNING' AND send_at IS NOT NULL OR (status || '') = 'PENDING' AND crashes > 0"""

DOWNGRADE = """
DROP INDEX turns_to_recover;
"""


def upgrade() -> None:
    build_index("turns_to_recover", ON)


def downgrade() -> None:
    op.execute(DOWNGRADE)
