"""The run and its processes: I15 progress, I16 waste, I21 conversations, I22 and I23 slots, I24 limits, LOGS."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.proof.checker.evidence import Evidence, Fault, Life, LogLine
from tests.proof.checker.memory_evidence import Conversation
from tests.proof.tests.checker.conviction import Convicts, amended, answered, play, plus, taken_over, without
from tests.proof.tests.checker.scene import TENANT, Scene


def lost(*, kind: str | None) -> Evidence:
    """A lease that ran out while this kind of fault was active."""
    scene = play("submit, claim")
    scene.evidence.lives.append(Life(at=0.0, role="worker", pid=7, what="started"))
    # The end of an operator's process costs no lease.
    scene.evidence.lives.append(Life(at=scene.at, role="redrive", pid=9, what="ended"))
    if kind is not None:
        scene.evidence.faults.append(Fault(at=scene.at, until=scene.at + 1, kind=kind, target="w"))
    return scene.play("take_over, settle").rest()


def at_once(**terms: int) -> Evidence:
    scene = Scene().submit("a", session="s").submit("b", session="u").play("claim a, claim b, settle a, settle b")
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


FORGOTTEN = play("submit, wire send, wire receive, wire delete, wait 4, wire send, claim, settle")
RAW = LogLine(role="api", pid=3, event="(raw)", level="", text="Traceback (most recent call last):")
INTERNAL = replace(RAW, role="redrive", text="turnstile: internal error: KeyError: 'x' (TURNSTILE_DEBUG=1 shows where)")

CONVICTED = (
    Convicts("I15", "is PENDING at rest", play("submit").rest(rested_at=None)),
    Convicts("I15", "did not come to rest within 60 s", answered().rest(rested_at=None), None),
    Convicts("I15", "took 60.1 s", answered().rest(healed_at=0.0, rested_at=60.1), None),
    Convicts(
        "I15", "fence 1 was lost and waited", play("submit, claim, wait 70, take_over, settle").rest(healed_at=0.0)
    ),
    Convicts("I15", "was forgotten until its resend deadline", FORGOTTEN.rest(calm=True)),
    Convicts("I16", "ran without a settle under fence 1, in a calm run", taken_over().rest(calm=True)),
    Convicts(
        "I16",
        "fence 1 was lost in a calm run",
        Scene().submit().claim(runs=False).play("take_over, settle").rest(calm=True),
    ),
    Convicts("I16", "neither settled nor lost", without(taken_over(), "attempts", 0)),
    Convicts("I16", "nothing had happened to its worker", lost(kind=None)),
    Convicts("I16", "nothing had happened to its worker (w)", lost(kind="event-loop-blocked")),
    Convicts("I16", "nothing had happened to its worker (w)", lost(kind="postgres-commits-hang")),
    Convicts("I16", "nothing had happened to its worker (w)", lost(kind="redis-unreachable")),
    Convicts(
        "I21",
        "was answered ['Go on.'], and the transcript has 'Is there something?'",
        spoken(*REMARKS, replies=(REPLIES[0], "Go on.", REPLIES[2])),
        "b",
    ),
    Convicts(
        "I21",
        "in place of 'My sister moved.' (line 2 of 001)",
        spoken(REMARKS[0], REMARKS[2], replies=(REPLIES[0], REPLIES[2])),
        "b",
    ),
    Convicts("I21", "the transcript is over (line 4 of 001)", spoken(*REMARKS, "And then?"), "d"),
    Convicts("I22", "ran as number 2 of tenant t in process 7, where 1 may", at_once(tenant_slots=1), "b"),
    Convicts("I23", "ran as number 2 in process 7, which has 1 slots", at_once(slots=1), "b"),
    Convicts("I24", "ran as number 2 of tenant t on all workers, where 1 may", at_once(places=1), "b"),
    Convicts("LOGS", "api 3 wrote a raw traceback", plus(answered(), logs=RAW), None),
    Convicts("LOGS", "redrive 3 ended with an error that it does not know", plus(answered(), logs=INTERNAL), None),
    Convicts(
        "LOGS",
        "KeyError: 'x'",
        logged("consumer.failed", down(0.0, 1000000000.0), exception="Traceback ...\nKeyError: 'x'"),
        None,
    ),
    Convicts("LOGS", "heartbeat.failed", outage(), None),
    Convicts("LOGS", "heartbeat.failed (error)", outage(down(10.0, 20.0)), None),
    Convicts("LOGS", "worker.part_ended", logged("worker.part_ended", level="critical"), None),
    Convicts(
        "LOGS",
        "relay 9 ended by itself with code 1",
        plus(answered(), lives=Life(at=1.0, role="relay", pid=9, what="ended", code=1, meant=False)),
        None,
    ),
    Convicts("LOGS", "watchdog.loop_stuck", stuck_loop(8), None),
)
