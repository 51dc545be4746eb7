"""The tables of the first release. Each file of the folder `0001_initial` is one area of the schema."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None

# The order matters: triggers and functions name tables of earlier files.
AREAS = (
    "version", "turns", "turn_status", "messages", "attempts", "submissions", "webhooks", "memory", "operations", "archive",
    "retention", "sequences", "audit", "access", "limits", "webhook_secrets", "erasures", "row_security",
    "submit_turn",
)  # fmt: skip

DOWNGRADE = """
DROP TABLE erasures, limit_overrides, browser_tokens, api_keys, audit, webhook_secrets, retention, archived_turns;
DROP TABLE redrives, paused_queues, workers, memory_items, webhooks, chosen_ids, submissions, turn_traces, turn_attempts,
           turn_values, messages, turns, sessions;
DROP FUNCTION submit_turn, is_of_other_tenant, advance_sequences, turns_owe_webhook, turns_refuse_illegal_transition,
              turns_refuse_illegal_birth;
DROP SEQUENCE fence_seq, memory_version_seq;
"""


def upgrade() -> None:
    for area in AREAS:
        op.execute(Path(__file__).with_suffix("").joinpath(f"{area}.sql").read_text("utf-8"))


def downgrade() -> None:
    op.execute(DOWNGRADE)
