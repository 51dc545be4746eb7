"""The index by which workers find lost turns."""

from alembic import op

revision = "0006"
down_revision = "0005"

# An expression, for the reason that 0004 gives. RUNNING turns whose lease holds have no `send_at`, so the index is nearly empty.
UPGRADE = """
CREATE INDEX turns_to_recover ON turns (queue, crashes, id)
    WHERE (status || '') = 'RUNNING' AND send_at IS NOT NULL OR (status || '') = 'PENDING' AND crashes > 0;
"""

DOWNGRADE = """
DROP INDEX turns_to_recover;
"""


def upgrade() -> None:
    op.execute(UPGRADE)


def downgrade() -> None:
    op.execute(DOWNGRADE)
