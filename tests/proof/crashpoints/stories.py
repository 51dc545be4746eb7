"""The stories: what the victim does when a fault strikes. Each brings its victim to some of the points, and comes to an end.

A story is prepared before the victim starts; only the victim works until the fault has struck. Some stories need
something to go wrong first, because nothing else leads to their points: a prelude, at a point of its own.
"""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.proof.crashpoints.actors import Actor
from tests.proof.crashpoints.passing import FaultKind, Strike
from tests.proof.crashpoints.stage import Stage
from tests.proof.crashpoints.terms import TENANT

CLAIM = "turnstile.statements.claim.claim: fetch_pipelined"
SETTLE = "turnstile.statements.settle.settle: fetch_pipelined"
SUBMIT = "turnstile.statements.submit.submit: fetch"
RECEIVE = "turnstile.worker.consumer.Consumer._receive: receive"
RECORD = "turnstile.statements.once_values.record_value: fetch"
HANDLER = "turnstile.worker.attempt.attempt.Attempt._reply: _handler"


def _nothing(stage: Stage, victim: Actor) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One story. `prepare` sets the scene; `provoke` is called when the victim has passed a point of `announce`."""

    prepare: Callable[[Stage], None]
    role: str = "worker"
    options: dict[str, Any] = field(default_factory=dict)
    """The victim's settings that differ."""
    preludes: tuple[Strike, ...] = ()
    announce: tuple[str, ...] = ()
    provoke: Callable[[Stage, Actor], None] = _nothing
    other_queue: bool = False
    """A worker of the second queue is started too."""
    requests: tuple[dict[str, Any], ...] = ()
    """For an API: the requests of clients."""
    may_fail: str | None = None
    """An error class with which a turn may fail because of a prelude."""


def _prelude(point: str, fault: FaultKind, after: str | None = None) -> Strike:
    return Strike(point=point, fault=fault, after=after, answered_by="sqs" if point == RECEIVE else "postgres")


def _conversations(stage: Stage) -> None:
    stage.submit("a", "answer", "retry", "answer")
    stage.send_malformed()
    stage.submit("b", "fail", "answer")


def _two_turns(stage: Stage) -> None:
    stage.submit("a", "answer", "answer")


def _remembering(stage: Stage) -> None:
    stage.submit("a", "remember", "remember")


def _drain(stage: Stage, victim: Actor) -> None:
    # It finishes its poll, and gives back what that brings.
    victim.signal(signal.SIGTERM)
    stage.submit("a", "answer")


def _shut_down(stage: Stage, victim: Actor) -> None:
    victim.signal(signal.SIGTERM)


def _lost(stage: Stage) -> None:
    stage.submit("a", "answer", "answer", send=False)
    stage.abandon("a")


def _dead_letter_moved_back(stage: Stage) -> None:
    [turn] = stage.submit("a", "fail once", send=False)
    stage.fail("a")
    stage.relay()
    for letter in stage.messages():
        stage.take_away(letter)
        stage.send_raw(letter["body"], letter["attributes"])
    assert turn


def _session_locked(stage: Stage) -> None:
    stage.lock_session("a", 30.0)
    stage.submit("a", "answer")


def _wake_again(stage: Stage, victim: Actor) -> None:
    # The session's next wake-up comes while the victim runs the session, as with a client's next turn.
    stage.wake("a", *(UUID(turn) for turn in stage.expected))


def _tenant_at_its_cap(stage: Stage) -> None:
    stage.submit("a", "slow", "answer")
    stage.submit("b", "answer")


def _only_tenant(stage: Stage) -> None:
    # With one of two slots in use, the second wake-up makes the worker look for waiting tenants.
    stage.submit("a", "slow", "answer")
    stage.submit("b", "answer")


def _tenant_at_its_cap_and_row_locked(stage: Stage) -> None:
    stage.submit("a", "slow")
    [turn] = stage.submit("b", "answer")
    stage.lock_row(turn)


def _prefetched(stage: Stage) -> None:
    # Many that end at once: by their pace the worker prefetches more of the slow ones than it has slots.
    for number in range(40):
        stage.submit(f"quick-{number}", "answer")
    for number in range(10):
        stage.submit(f"slow-{number}", "slow")


def _locked_row(stage: Stage) -> None:
    [turn] = stage.submit("a", "answer")
    stage.lock_row(turn)


def _next_locked(stage: Stage) -> None:
    turns = stage.submit("a", "answer", "answer")
    stage.lock_row(turns[1])


def _newer_history(stage: Stage) -> None:
    # As after a restore of the database. The first settle, whose response is lost, does not delete it.
    stage.cache_newer_history("a")
    stage.submit("a", "answer", "answer")


def _head_of_another_queue(stage: Stage) -> None:
    [turn] = stage.submit("a", "answer", queue=1, send=False)
    stage.submit("a", "answer")
    assert turn


def _short_runs(stage: Stage) -> None:
    stage.mark_waiting("a", 10.0)
    stage.submit("a", "answer", "answer", "answer")


def _due_rows(stage: Stage) -> None:
    stage.submit("a", "answer", "answer", send=False, resend_seconds=0.01)
    stage.submit("b", "answer", send=False)
    stage.abandon("b")
    stage.submit("c", "answer", send=False, in_seconds=0.1)
    stage.submit("d", "fail", send=False)
    stage.fail("d")


def _dead_letters(stage: Stage) -> None:
    for session in ("a", "b", "c"):
        stage.submit(session, "fail once", send=False)
        stage.fail(session)
    stage.relay()


def _family(stage: Stage) -> None:
    stage.submit("a", "fan out", "answer")


def _no_turns(stage: Stage) -> None:
    return


def _request(session: str, key: str) -> dict[str, Any]:
    return {"tenant": TENANT, "session": session, "key": key, "body": {"input": {"do": "answer"}}}


def _merge(session: str, key: str) -> dict[str, Any]:
    request = _request(session, key)
    return {**request, "body": {**request["body"], "on_busy": "merge"}}


_MERGES = (_merge("a", "first"), _merge("a", "second"), _merge("b", "third"), _merge("a", "second"))
_REQUESTS = (_request("a", "first"), _request("b", "second"), _request("a", "first"))

STORIES: dict[str, Story] = {
    # --- a worker
    "conversations": Story(prepare=_conversations),
    "one slot": Story(prepare=_two_turns, options={"concurrency": 1}),
    "drain": Story(prepare=_no_turns, options={"grace_seconds": 8.0}, announce=(RECEIVE,), provoke=_drain),
    "shutdown": Story(
        prepare=lambda stage: _only(stage.submit("a", "slow", "answer")),
        options={"grace_seconds": 0.05},
        announce=(HANDLER,),
        provoke=_shut_down,
    ),
    "time-out": Story(prepare=lambda stage: _only(stage.submit("a", "hang", timeout_seconds=0.3))),
    "thread": Story(prepare=_two_turns, options={"handler": "tests.proof.crashpoints.handlers:act_in_thread"}),
    "lost turn": Story(prepare=_lost),
    "dead letter moved back": Story(prepare=_dead_letter_moved_back),
    "session locked": Story(prepare=_session_locked),
    "second wake-up": Story(
        prepare=lambda stage: _only(stage.submit("a", "slow")), announce=(HANDLER,), provoke=_wake_again
    ),
    "tenant at its cap": Story(prepare=_tenant_at_its_cap, options={"tenant_slots": 1}),
    "only tenant": Story(prepare=_only_tenant, options={"concurrency": 2}),
    "tenant at its cap, row locked": Story(prepare=_tenant_at_its_cap_and_row_locked, options={"tenant_slots": 1}),
    "prefetched": Story(prepare=_prefetched, options={"concurrency": 4}),
    "locked row": Story(prepare=_locked_row),
    "next row locked": Story(prepare=_next_locked, options={"session_run_turns": 1, "concurrency": 1}),
    "head of another queue": Story(prepare=_head_of_another_queue, other_queue=True),
    "short session runs": Story(prepare=_short_runs, options={"session_run_turns": 1, "concurrency": 1}),
    "claim response lost": Story(prepare=_two_turns, preludes=(_prelude(CLAIM, FaultKind.LOST),)),
    "settle response lost": Story(prepare=_two_turns, preludes=(_prelude(SETTLE, FaultKind.LOST),)),
    "newer history": Story(prepare=_newer_history, preludes=(_prelude(SETTLE, FaultKind.LOST),)),
    "settle refused": Story(
        prepare=_two_turns, preludes=(_prelude(SETTLE, FaultKind.REFUSED),), may_fail="unstorable_reply"
    ),
    "connection broken": Story(
        prepare=_two_turns,
        preludes=(_prelude("turnstile.backends.postgres.database.Database.fetch_pipelined: run", FaultKind.CUT),),
    ),
    "receive response lost": Story(prepare=_two_turns, preludes=(_prelude(RECEIVE, FaultKind.LOST),)),
    "family": Story(prepare=_family),
    "value response lost": Story(prepare=_family, preludes=(_prelude(RECORD, FaultKind.LOST),)),
    "processor fails": Story(
        prepare=_two_turns,
        preludes=(_prelude("turnstile.worker.processor.Processor._work: handle", FaultKind.EXCEPTION),),
    ),
    "remembering": Story(prepare=_remembering),
    # --- a relay
    "relay": Story(prepare=_due_rows, role="relay"),
    # --- an API
    "submit": Story(prepare=_no_turns, role="api", requests=_REQUESTS),
    "submit on busy": Story(prepare=_no_turns, role="api", requests=_MERGES),
    "submit responses lost": Story(
        prepare=_no_turns,
        role="api",
        requests=_REQUESTS,
        preludes=(_prelude(SUBMIT, FaultKind.CUT), _prelude(SUBMIT, FaultKind.CUT)),
    ),
    "submit refused": Story(
        prepare=_no_turns, role="api", requests=_REQUESTS, preludes=(_prelude(SUBMIT, FaultKind.REFUSED),)
    ),
    # --- an operator
    "redrive": Story(prepare=_dead_letters, role="redrive"),
}


def _only(_: object) -> None:
    return
