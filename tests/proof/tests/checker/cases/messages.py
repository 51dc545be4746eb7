"""Messages and locks: I9 dead letters, I10 deletions, I14 session locks."""

from tests.proof.checker.evidence import RedisKey
from tests.proof.tests.checker.conviction import Convicts, amended, answered, dead, play, plus, without
from tests.proof.tests.checker.scene import Scene, body_of, lock_of

REJECTED_QUIETLY = {"do": "reject", "dead_letter": False}
FIRST = {"turnstile.generation": "1"}
LOCK, OTHER = lock_of("s"), lock_of("r")


def rejected() -> Scene:
    return Scene().submit(content=REJECTED_QUIETLY).play("claim, settle a failed Reject")


def locked() -> Scene:
    """Worker w1 has the lock of session s."""
    return Scene().script("w1", ("SET", LOCK, "w1", "NX", "PX", "1500"))


def touched(*command: str) -> Convicts:
    return Convicts("I14", f"{command[0]} of {LOCK}", locked().script("w2", command).rest(), None)


def extended() -> Scene:
    return locked().wait(1.0).script("w1", ("GET", LOCK), ("PEXPIRE", LOCK, "1500")).wait(1.0)


CONVICTED = (
    Convicts("I9", "its dead letter of generation 1 is not on the DLQ", without(dead(), "queued")),
    Convicts(
        "I9",
        "its dead letter of generation 2 is not on the DLQ",
        without(dead().play("redrive, claim, settle a failed, dead_letter"), "queued", 1),
    ),
    Convicts("I9", "still to be sent", play("submit, claim, settle a failed")),
    Convicts(
        "I9",
        "no dead letter was sent or is owed",
        amended(play("submit, claim, settle a failed"), "turns", send_at=None),
    ),
    Convicts("I9", "is SUCCEEDED and is owed a message", amended(answered(), "turns", send_at=1.0)),
    Convicts("I9", "generation 1, which never was FAILED", answered().queue(body_of("a"), dead=True, **FIRST)),
    Convicts("I9", "has a dead letter (m0) and no row", Scene().queue(body_of("a"), dead=True, **FIRST)),
    Convicts("I9", "was rejected without a dead letter, and has one", rejected().dead_letter()),
    Convicts("I9", "was rejected without a dead letter, and is owed one", amended(rejected(), "turns", send_at=1.0)),
    Convicts("I9", "on the main queue at rest", answered().queue(body_of("a"), dead=False)),
    Convicts("I9", "can't be understood", Scene().queue("?", dead=True), None),
    Convicts(
        "I10",
        "while its only session run had settled nothing",
        play("submit, wire receive, claim, wire delete, settle"),
    ),
    Convicts("I10", "deleted before the turn was recorded", play("wire receive, wire delete, submit, claim, settle")),
    Convicts(
        "I10",
        "with no copy on the DLQ",
        Scene().wire("delete", None, body="?").wire("send", None, dead=True, body="?"),
        None,
    ),
    Convicts("I14", "is left at rest", plus(answered(), keys=RedisKey(key=LOCK, value="w1", ttl_ms=-1)), None),
    touched("DEL", LOCK),
    touched("PEXPIRE", LOCK, "1500"),
    touched("SET", LOCK, "w2", "PX", "1500"),
    Convicts(
        "I14",
        f"DEL of {LOCK} by 10.0.0.1:5",
        locked().redis("10.0.0.1:5", "DEL", f"{OTHER}:waiting", OTHER, LOCK),
        None,
    ),
    Convicts("I14", "by w2, while w1 had it locked", extended().script("w2", ("DEL", LOCK)), None),
)
