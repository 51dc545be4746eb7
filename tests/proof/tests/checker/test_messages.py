"""Messages, locks, progress and processes: I9, I10, I14, I15, I16, I21, I22, I23, LOGS."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.proof.checker import check
from tests.proof.checker.evidence import Evidence, Fault, Life, LogLine, RedisKey
from tests.proof.checker.memory_evidence import Conversation
from tests.proof.tests.checker.conviction import (
    Build,
    Convicts,
    amended,
    answered,
    assert_acquits,
    claims_of,
    dead,
    each,
    plus,
    taken_over,
    without,
)
from tests.proof.tests.checker.scene import TENANT, Scene, body_of, lock_of

QUIETLY = {"do": "reject", "dead_letter": False}
FIRST = {"turnstile.generation": "1"}


def purged() -> Evidence:
    evidence = without(dead().wire("send", dead=True).rest(), "queued")
    return plus(evidence, faults=Fault(at=1.0, until=2.0, kind="queue purged", target="sqs"))


def locked() -> Scene:
    """Worker w1 has the lock of session s."""
    return Scene().script("w1", ("SET", lock_of("s"), "w1", "NX", "PX", "1500"))


def touched(*command: str) -> Convicts:
    return Convicts("I14", "while w1 held it", lambda: locked().script("w2", command).rest(), None)


def unlinked() -> Evidence:
    scene = locked().redis("10.0.0.9:1", "UNLINK", lock_of("r"), lock_of("s"))
    scene.script("w2", ("SET", lock_of("s"), "w2", "NX", "PX", "1500"))
    return scene.script("w2", ("GET", lock_of("s")), ("DEL", lock_of("s"))).rest()


def lost(*, kind: str | None) -> Evidence:
    """A lease that ran out while this kind of fault was active."""
    scene = Scene().submit().claim()
    scene.evidence.lives.append(Life(at=0.0, role="worker", pid=7, what="started"))
    if kind is not None:
        scene.evidence.faults.append(Fault(at=scene.at, until=scene.at + 1, kind=kind, target="w"))
    return scene.take_over().settle().rest()


def at_once(**terms: int) -> Evidence:
    scene = Scene().submit("a", session="s").submit("b", session="u").claim("a").claim("b").settle("a").settle("b")
    return scene.rest(**terms)


# --- logs


def logged(event: str, *faults: Fault, **fields: Any) -> Evidence:
    scene = answered().log(event, None, **{"level": "error", **fields})
    scene.evidence.faults += faults
    return scene.rest()


def outage(*faults: Fault) -> Evidence:
    exception = "Traceback ...\npsycopg.OperationalError: the connection is closed"
    return logged("heartbeat.failed", *faults, exception=exception, timestamp="1970-01-01T00:01:40Z")


def down(at: float, until: float, kind: str = "postgres down") -> Fault:
    return Fault(at=at, until=until, kind=kind, target="x")


def stuck_loop(pid: int) -> Evidence:
    scene = Scene().submit(content={"do": "block", "seconds": 9}).claim()
    amended(scene.evidence, "runs", pid=pid)
    return scene.run().log("watchdog.loop_stuck", None, level="critical").settle().rest()


# --- conversations

REMARKS = ("Good morning.", "My sister moved.", "She writes.")
REPLIES = ("When did you wake?", "Is there something?", "Would you know how?")


def spoken(*remarks: str, replies: Sequence[str] = REPLIES) -> Scene:
    """Turns a, b, c, d: so many remarks were made and answered."""
    scene = Scene()
    transcript = Conversation(tenant=TENANT, session="s", name="001", remarks=REMARKS, replies=REPLIES)
    scene.evidence.conversations.append(transcript)
    for turn_id, remark, reply in zip("abcd", remarks, (*replies, "And?"), strict=False):
        say(scene, turn_id, remark).settle(turn_id)
        scene.evidence.messages[-1] = replace(scene.evidence.messages[-1], content=reply)
    return scene


def say(scene: Scene, turn_id: str, remark: str) -> Scene:
    return scene.submit(turn_id, content={"do": "converse", "text": remark}).claim(turn_id)


def redriven_behind_a_compensation() -> Evidence:
    scene = spoken(REMARKS[0]).submit("z", content={"turn_id": "y"}).claim("z").settle("z")
    scene.turns["z"].row = replace(scene.turns["z"].row, kind="compensation")
    return say(scene, "y", REMARKS[1]).settle("y").rest()


CASES = (
    Convicts("I9", "its dead letter of generation 1 is not on the DLQ", lambda: without(dead(), "queued")),
    Convicts(
        "I9",
        "its dead letter of generation 2 is not on the DLQ",
        lambda: without(dead().redrive().claim().settle(outcome="failed").dead_letter(), "queued", 1),
    ),
    Convicts("I9", "still to be sent", lambda: Scene().submit().claim().settle(outcome="failed")),
    Convicts(
        "I9",
        "no dead letter was sent or is owed",
        lambda: amended(Scene().submit().claim().settle(outcome="failed"), "turns", send_at=None),
    ),
    Convicts("I9", "generation 1, which never was FAILED", lambda: answered().queue(body_of("a"), dead=True, **FIRST)),
    Convicts("I9", "has a dead letter (m0) and no row", lambda: Scene().queue(body_of("a"), dead=True, **FIRST)),
    Convicts(
        "I9",
        "was rejected without a dead letter, and has one",
        lambda: Scene().submit(content=QUIETLY).claim().settle(outcome="failed", error_class="Reject").dead_letter(),
    ),
    Convicts("I9", "on the main queue at rest", lambda: answered().queue(body_of("a"), dead=False)),
    Convicts("I9", "can't be understood", lambda: Scene().queue("?", dead=True), None),
    Convicts(
        "I10",
        "while its only session run had settled nothing",
        lambda: Scene().submit().wire("receive").claim().wire("delete").settle(),
    ),
    Convicts(
        "I10",
        "deleted before the turn was recorded",
        lambda: Scene().wire("receive").wire("delete").submit().claim().settle(),
    ),
    Convicts(
        "I10",
        "with no copy on the DLQ",
        lambda: Scene().wire("delete", None, body="?").wire("send", None, dead=True, body="?"),
        None,
    ),
    Convicts(
        "I14", "is left at rest", lambda: plus(answered(), keys=RedisKey(key=lock_of("s"), value="w1", ttl_ms=-1)), None
    ),
    touched("DEL", lock_of("s")),
    touched("PEXPIRE", lock_of("s"), "1500"),
    touched("SET", lock_of("s"), "w2", "PX", "1500"),
    Convicts(
        "I14",
        f"DEL of {lock_of('s')}",
        lambda: locked().redis("10.0.0.1:5", "DEL", f"{lock_of('r')}:waiting", lock_of("r"), lock_of("s")),
        None,
    ),
    Convicts(
        "I14",
        "by w2, while w1 held it",
        lambda: (
            locked()
            .wait(1.0)
            .script("w1", ("GET", lock_of("s")), ("PEXPIRE", lock_of("s"), "1500"))
            .wait(1.0)
            .script("w2", ("DEL", lock_of("s")))
        ),
        None,
    ),
    Convicts("I15", "is PENDING at rest", lambda: Scene().submit().rest(rested_at=None)),
    Convicts("I15", "did not come to rest within 60 s", lambda: answered().rest(rested_at=None), None),
    Convicts("I15", "took 60.1 s", lambda: answered().rest(healed_at=0.0, rested_at=60.1), None),
    Convicts(
        "I15",
        "fence 1 was lost and waited",
        lambda: Scene().submit().claim().wait(70).take_over().settle().rest(healed_at=0.0),
    ),
    Convicts(
        "I15",
        "was forgotten until its resend deadline",
        lambda: (
            Scene()
            .submit()
            .wire("send")
            .wire("receive")
            .wire("delete")
            .wait(4)
            .wire("send")
            .claim()
            .settle()
            .rest(calm=True)
        ),
    ),
    Convicts(
        "I16",
        "ran in vain under fence 1, in a calm run",
        lambda: Scene().submit().claim().take_over().settle().rest(calm=True),
    ),
    Convicts(
        "I16",
        "fence 1 was lost in a calm run",
        lambda: Scene().submit().claim(runs=False).take_over().settle().rest(calm=True),
    ),
    Convicts("I16", "neither settled nor lost", lambda: without(taken_over(), "attempts", 0)),
    Convicts("I16", "nothing had happened to its worker", lambda: lost(kind=None)),
    Convicts("I16", "nothing had happened to its worker", lambda: lost(kind="event-loop-blocked")),
    Convicts(
        "I21",
        "was answered ['Go on.'], and the transcript has 'Is there something?'",
        lambda: spoken(*REMARKS, replies=(REPLIES[0], "Go on.", REPLIES[2])),
        "b",
    ),
    Convicts(
        "I21",
        "in place of 'My sister moved.' (line 2 of 001)",
        lambda: spoken(REMARKS[0], REMARKS[2], replies=(REPLIES[0], REPLIES[2])),
        "b",
    ),
    Convicts("I21", "the transcript is over (line 4 of 001)", lambda: spoken(*REMARKS, "And then?"), "d"),
    Convicts("I22", "ran as number 2 of tenant t in process 7, where 1 may", lambda: at_once(tenant_slots=1), "b"),
    Convicts("I23", "ran as number 2 in process 7, which has 1 slots", lambda: at_once(slots=1), "b"),
    Convicts(
        "LOGS",
        "api 3 wrote a raw traceback",
        lambda: plus(
            answered(),
            logs=LogLine(role="api", pid=3, event="(raw)", level="", text="Traceback (most recent call last):"),
        ),
        None,
    ),
    Convicts(
        "LOGS",
        "KeyError: 'x'",
        lambda: logged("consumer.failed", down(0.0, 1000000000.0), exception="Traceback ...\nKeyError: 'x'"),
        None,
    ),
    Convicts("LOGS", "heartbeat.failed", outage, None),
    Convicts("LOGS", "heartbeat.failed", lambda: outage(down(10.0, 20.0)), None),
    Convicts("LOGS", "worker.part_ended", lambda: logged("worker.part_ended", level="critical"), None),
    Convicts(
        "LOGS",
        "relay 9 ended by itself with code 1",
        lambda: plus(answered(), lives=Life(at=1.0, role="relay", pid=9, what="ended", code=1, meant=False)),
        None,
    ),
    Convicts("LOGS", "watchdog.loop_stuck", lambda: stuck_loop(8), None),
)

ACQUITTED: dict[str, Build] = {
    "a dead letter that a purge took away": purged,
    "a lock that the nemesis unlinked": unlinked,
    "an outage that the nemesis made": lambda: outage(down(99.0, 101.0)),
    "a line by a shifted clock": lambda: logged(
        "worker.part_ended",
        down(99.0, 101.0, "worker-clock-shifted"),
        level="critical",
        timestamp="1970-01-01T01:01:40Z",
    ),
    "a transcript without a failed turn": lambda: (
        say(spoken(REMARKS[0]), "z", REMARKS[1]).settle("z", "failed").dead_letter("z")
    ),
    "as many at once as the tenant may": lambda: at_once(tenant_slots=2),
}


@each(CASES)
def test_the_checker_convicts(case: Convicts) -> None:
    case.check()


@each(ACQUITTED)
def test_the_checker_acquits(case: Build) -> None:
    assert_acquits(case)


def test_a_violation_names_the_session_of_a_lock() -> None:
    [violation] = check(locked().script("w2", ("DEL", lock_of("s"))).rest())

    assert violation.session == "s"


def test_a_stuck_loop_is_explained_by_a_handler_that_blocks_it() -> None:
    assert claims_of(stuck_loop(7), "LOGS", None) == []


def test_what_is_redriven_behind_a_compensation_is_another_conversation() -> None:
    violations = check(redriven_behind_a_compensation())

    assert [violation for violation in violations if violation.invariant == "I21"] == []
