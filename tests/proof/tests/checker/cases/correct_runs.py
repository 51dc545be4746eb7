"""Correct runs, whatever happened in them."""

from tests.proof.checker.evidence import Evidence, Fault, Life
from tests.proof.tests.checker.conviction import Made, play
from tests.proof.tests.checker.scene import ECHO, Scene, lock_of

KEY = lock_of("s")
LOCK = ("SET", KEY, "w1", "NX", "PX", "1500")
UNLOCK = (("GET", KEY), ("DEL", f"{KEY}:waiting"), ("DEL", KEY))


def released_and_snoozed() -> Evidence:
    scene = play("submit")
    for outcome in ("released", "snoozed", "released", "snoozed"):
        scene.play(f"claim, run a cancelled, settle a {outcome}")
    return scene.play("claim, settle").rest(calm=True)


def merged() -> Scene:
    scene = Scene().submit().merge(content="and").merge(content="so", key="k")
    scene.ask("submit", "a", session="s", content="so", key="k")
    scene.ask("submit", "a", session="s", content="no", outcome="fail")
    return scene.claim(inputs=3).run().settle()


def redriven_to_the_end_of_its_session() -> Scene:
    scene = play("submit a, submit b, claim a, settle a failed, dead_letter a").claim("b", heard=[])
    return scene.play("read a, redrive a, settle b").claim("a", heard=["b"]).play("read a, settle a, read a")


def scheduled() -> Scene:
    scene = Scene().submit("later", scheduled=True).submit("now").claim("now", heard=[]).play("settle now, place later")
    return scene.claim("later", heard=["now"]).settle("later")


def submits_without_a_response() -> Scene:
    """One was done and one was not; one was repeated under its key until it got a response."""
    scene = Scene().submit("a", outcome="unknown").ask("submit", "-", outcome="unknown", session="s", content=ECHO)
    scene.submit("b", key="k", outcome="unknown").ask("submit", "b", key="k", session="s", content=ECHO)
    scene.ask("submit", "b", key="k", outcome="fail", session="s", content={"do": "other"})
    scene.ask("submit", "-", key="turn:c", outcome="unknown", session="s", content=ECHO)
    return scene.play("claim a, settle a, claim b, settle b")


def malformed() -> Scene:
    scene = Scene().wire("receive", None, body="?").wire("send", None, dead=True, body="?")
    scene.queue("?", dead=True, **{"turnstile.reason": "malformed: body is not JSON"})
    return scene.wire("delete", None, body="?")


def locks() -> Scene:
    """Taken, found busy by another worker, extended, kept for the waiting mark, and given back."""
    busy = (("SET", KEY, "w2", "NX", "PX", "1500"), ("GET", KEY), ("SET", f"{KEY}:waiting", "1", "PX", "1500"))
    scene = Scene().script("w1", LOCK).script("w2", *busy).script("w1", ("GET", KEY), ("PEXPIRE", KEY, "1500"))
    scene.script("w1", ("GET", KEY), ("DEL", f"{KEY}:waiting"), ("PEXPIRE", KEY, "1500"))
    return scene.script("w1", *UNLOCK).script("w2", ("SET", KEY, "w2", "NX", "PX", "1500"))


def retaken_after_a_flush() -> Scene:
    scene = Scene().script("w1", LOCK).redis("10.0.0.9:1", "FLUSHALL")
    return scene.script("w2", ("SET", KEY, "w2", "NX", "PX", "1500")).script("w2", *UNLOCK)


def retaken_after_its_expiry() -> Scene:
    return Scene().script("w1", LOCK).wait(1.6).script("w2", ("GET", KEY), ("SET", KEY, "w2", "PX", "1500"))


def paused() -> Scene:
    scene = play("submit, claim")
    scene.evidence.lives.append(Life(at=0.0, role="worker", pid=7, what="started"))
    scene.evidence.faults.append(Fault(at=scene.at, until=scene.at + 3, kind="sigstop worker", target="w"))
    return scene.play("take_over, settle, log turn.succeeded, log turn.superseded")


ACQUITTED: dict[str, Made] = {
    "answered": play("submit, read, claim, run, settle, read").rest(calm=True),
    "released and snoozed without a charge": released_and_snoozed(),
    "ended as a crash loop": play("submit, claim, take_over, take_over, take_over a FAILED, dead_letter"),
    "canceled before it was submitted": Scene()
    .ask("cancel", "a", status=None)
    .submit("a", canceled=True, key="turn:a"),
    "retried at the moment of its cancel": play("submit, claim, cancel, settle a retried"),
    "merged into a turn that waited": merged(),
    "merged although the client never knew": play("submit")
    .merge(content="and", outcome="unknown")
    .claim(inputs=2)
    .settle(),
    "redriven to the end of its session": redriven_to_the_end_of_its_session(),
    "scheduled behind later turns": scheduled(),
    "submits without a response": submits_without_a_response(),
    "a duplicate deleted while another worker runs": play(
        "submit, wire receive, claim, wire receive, wire delete, settle, wire delete"
    ),
    "a FIFO message deleted after the claim": play("submit, wire receive, claim, wire delete, settle").rest(fifo=True),
    "a malformed message moved to the DLQ": malformed(),
    "locks taken, extended and given back": locks(),
    "a lock retaken after a flush": retaken_after_a_flush(),
    "a lock retaken after its expiry": retaken_after_its_expiry(),
    "a lock that changed hands in a gap": Scene().script("w1", LOCK).redis("gap").script("w2", *UNLOCK),
    "a worker paused past its lease": paused(),
}
