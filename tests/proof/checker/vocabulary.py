"""The product's words, repeated without an import: a rename in the product must be repeated here."""

PENDING, RUNNING, SUCCEEDED, FAILED, CANCELED = "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED"
OPEN = frozenset({PENDING, RUNNING})
TERMINAL = frozenset({SUCCEEDED, FAILED, CANCELED})

STATUS_AFTER = {
    "succeeded": SUCCEEDED,
    "failed": FAILED,
    "canceled": CANCELED,
    "retried": PENDING,
    "snoozed": PENDING,
    "released": PENDING,
    "joined": PENDING,
}
"""What an attempt's outcome makes of its turn; `lost` is missing: that turn was taken by another claim."""
LOST = "lost"
FREE = frozenset({"snoozed", "released", "joined"})
"""Outcomes that give the attempt back."""
CHARGED_TO_THE_HANDLER = frozenset({"retried", "failed"})
"""Outcomes that count against the budget of failures."""

CLEARS_CRASHES = frozenset({"retried", "snoozed", "joined"})
"""Outcomes of a run that came to an end of its own, and so did not crash its worker."""

CRASH_LOOP = "crash_loop"
COMPENSATION = "compensation"
"""The kind of a turn that is run because another finally failed."""

DURABLE_KINDS = frozenset({"fact"})
"""The kinds of items of a working memory that are as safe as the turn. Any other item may vanish, but may not go back to an older
version."""

GENERATION_ATTRIBUTE = "turnstile.generation"
REASON_ATTRIBUTE = "turnstile.reason"
MALFORMED = "malformed"
"""How the reason of a malformed message begins."""
LOCK = "lock:session:"
"""Part of every key of a session lock."""
WAITING = ":waiting"
"""How the key of a waiting mark ends."""
