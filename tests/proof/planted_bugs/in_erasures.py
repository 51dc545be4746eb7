"""Bugs in the erasure: it leaves something, ends too early, or takes what nobody has erased."""

import turnstile.erasure.eraser
from tests.proof.planted_bugs.patching import alter
from tests.proof.planted_bugs.planted_bug import planted

# A turn is erased five seconds after its end, so an erasure takes longer than the other runs.
ERASING = {"erasures": 0.15, "seconds": 12.0, "bound_seconds": 40.0}


@planted("I25", "relay-sigkill", **ERASING)
def erasure_leaves_messages() -> None:
    """What was said outlives the erased turn."""
    alter(
        turnstile.erasure.eraser,
        "ERASE_TURNS",
        ("DELETE FROM messages m USING gone g WHERE ", "DELETE FROM messages m USING gone g WHERE false AND "),
    )


@planted("I25", "relay-sigkill", **ERASING)
def erasure_comes_back_for_nobody() -> None:
    """An erasure ends without the turns whose last words it would have to wait for."""
    alter(
        turnstile.erasure.eraser,
        "FIND",
        (" ORDER BY t.seq LIMIT", " AND coalesce(t.finished_at < now() - interval '5 s', false) ORDER BY t.seq LIMIT"),
    )


@planted("I25", "relay-sigkill", **ERASING)
def erasure_takes_the_whole_tenant() -> None:
    """An erasure takes the turns of all sessions of its tenant."""
    for statement in ("FIND", "ERASE_TURNS"):
        alter(turnstile.erasure.eraser, statement, ("AND t.session_id = %(session)s\n", "\n"))
