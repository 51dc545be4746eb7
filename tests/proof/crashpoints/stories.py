"""The stories: what the victim does when a fault strikes. Each brings its victim to some of the points, and comes to an end.

A story's scene is set before the victim starts; only the victim works until the fault has struck. Some stories need
something to go wrong first, because nothing else leads to their points: a prelude, at a point of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any

from tests.proof.crashpoints.passing import FaultKind, Strike
from tests.proof.crashpoints.stage import Stage
from tests.proof.crashpoints.terms import LEASE_SECONDS, TENANT

CLAIM = "turnstile.statements.claim.claim: fetch_pipelined"
ASK = "turnstile.worker.claiming._ClaimAttempt.ask: _ask"
SETTLE = "turnstile.statements.settle.settle: fetch_pipelined"
SUBMIT = "turnstile.statements.submit.submit: fetch"
RECEIVE = "turnstile.worker.consumer.Consumer._receive: receive"
RECORD = "turnstile.statements.once_values.record_value: fetch"
HANDLER = "turnstile.worker.attempt.attempt.Attempt._reply: _handler"

Step = Callable[[Stage], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    scene: tuple[Step, ...] = ()
    role: str = "worker"
    options: dict[str, Any] = field(default_factory=dict)
    """The victim's settings that differ."""
    preludes: tuple[Strike, ...] = ()
    at: str | None = None
    """A point. When the victim has passed it, it gets a SIGTERM if `sigterm` is set, and the steps of `then` follow."""
    sigterm: bool = False
    then: tuple[Step, ...] = ()
    other_queue: bool = False
    """A worker of the second queue is started too."""
    requests: tuple[dict[str, Any], ...] = ()
    """For an API: the requests of clients."""
    may_fail: str | None = None
    """An error class with which a turn may fail because of a prelude."""


def _prelude(point: str, fault: FaultKind) -> tuple[Strike, ...]:
    return (Strike(point=point, fault=fault, answered_by="sqs" if point == RECEIVE else "postgres"),)


def _submit(session: str, *orders: str, **fields: Any) -> Step:
    return methodcaller("submit", session, *orders, **fields)


def _request(session: str, key: str, **fields: str) -> dict[str, Any]:
    return {"tenant": TENANT, "session": session, "key": key, "body": {"input": {"do": "answer"}, **fields}}


def _merge(session: str, key: str) -> dict[str, Any]:
    return _request(session, key, on_busy="merge")


_abandon, _fail = methodcaller("abandon", "a"), methodcaller("fail", "a")
_relay, _lock_row = methodcaller("relay"), methodcaller("lock_row")

_TWO_TURNS = (_submit("a", "answer", "answer"),)
_REMEMBERING = (_submit("a", "remember", "remember"),)
_FAMILY = (_submit("a", "fan out", "answer"),)
# With one of two slots in use, the second wake-up makes the worker look for waiting tenants.
_TWO_SESSIONS = (_submit("a", "slow", "answer"), _submit("b", "answer"))
_REQUESTS = (_request("a", "first"), _request("b", "second"), _request("a", "first"))

STORIES: dict[str, Story] = {
    # --- a worker
    "conversations": Story(
        scene=(
            _submit("a", "answer", "retry", "answer"),
            methodcaller("send_malformed"),
            _submit("b", "fail", "answer"),
        )
    ),
    "one slot": Story(scene=_TWO_TURNS, options={"concurrency": 1}),
    # It finishes its poll, and gives back what that brings.
    "drain": Story(options={"grace_seconds": 8.0}, at=RECEIVE, sigterm=True, then=(_submit("a", "answer"),)),
    "shutdown": Story(
        scene=(_submit("a", "slow", "answer"),), options={"grace_seconds": 0.05}, at=HANDLER, sigterm=True
    ),
    "time-out": Story(scene=(_submit("a", "hang", timeout_seconds=0.3),)),
    "thread": Story(scene=_TWO_TURNS, options={"handler": "tests.proof.crashpoints.handlers:act_in_thread"}),
    "lost turn": Story(scene=(_submit("a", "answer", "answer", send=False), _abandon)),
    "dead letter moved back": Story(
        scene=(_submit("a", "fail once", send=False), _fail, _relay, methodcaller("move_dead_letters_back"))
    ),
    # As long as a worker may have it: a lock beyond that is nobody's.
    "session locked": Story(scene=(_submit("a", "answer"), methodcaller("lock_session", "a", 2 * LEASE_SECONDS))),
    # The session's next wake-up comes while the victim runs the session, as with a client's next turn.
    "second wake-up": Story(scene=(_submit("a", "slow"),), at=HANDLER, then=(methodcaller("wake_all", "a"),)),
    "tenant at its cap": Story(scene=_TWO_SESSIONS, options={"tenant_slots": 1}),
    "only tenant": Story(scene=_TWO_SESSIONS, options={"concurrency": 2}),
    "tenant at its cap, row locked": Story(
        scene=(_submit("a", "slow"), _submit("b", "answer"), _lock_row), options={"tenant_slots": 1}
    ),
    # Many that end at once: by their pace the worker prefetches more of the slow ones than it has slots.
    "prefetched": Story(
        scene=(
            *(_submit(f"quick-{number}", "answer") for number in range(40)),
            *(_submit(f"slow-{number}", "slow") for number in range(10)),
        ),
        options={"concurrency": 4},
    ),
    "locked row": Story(scene=(_submit("a", "answer"), _lock_row)),
    "next row locked": Story(scene=(*_TWO_TURNS, _lock_row), options={"session_run_turns": 1, "concurrency": 1}),
    "head of another queue": Story(
        scene=(_submit("a", "answer", queue=1, send=False), _submit("a", "answer")), other_queue=True
    ),
    "short session runs": Story(
        scene=(methodcaller("mark_waiting", "a", 10.0), _submit("a", "answer", "answer", "answer")),
        options={"session_run_turns": 1, "concurrency": 1},
    ),
    "claim response lost": Story(scene=_TWO_TURNS, preludes=_prelude(CLAIM, FaultKind.LOST)),
    # As while the COMMIT of a claim hangs whose connection has broken.
    "head locked by a lost claim": Story(
        scene=(_submit("a", "answer"), _lock_row), preludes=_prelude(ASK, FaultKind.CUT)
    ),
    "settle response lost": Story(scene=_TWO_TURNS, preludes=_prelude(SETTLE, FaultKind.LOST)),
    # As after a restore of the database. The first settle, whose response is lost, does not delete it.
    "newer history": Story(
        scene=(methodcaller("cache_newer_history", "a"), *_TWO_TURNS), preludes=_prelude(SETTLE, FaultKind.LOST)
    ),
    "settle refused": Story(
        scene=_TWO_TURNS, preludes=_prelude(SETTLE, FaultKind.REFUSED), may_fail="unstorable_reply"
    ),
    "connection broken": Story(
        scene=_TWO_TURNS,
        preludes=_prelude("turnstile.backends.postgres.database.Database._send: run", FaultKind.CUT),
    ),
    "receive response lost": Story(scene=_TWO_TURNS, preludes=_prelude(RECEIVE, FaultKind.LOST)),
    "family": Story(scene=_FAMILY),
    "value response lost": Story(scene=_FAMILY, preludes=_prelude(RECORD, FaultKind.LOST)),
    "processor fails": Story(
        scene=_TWO_TURNS,
        preludes=_prelude("turnstile.worker.processor.Processor._work: handle", FaultKind.EXCEPTION),
    ),
    "remembering": Story(scene=_REMEMBERING),
    # --- a relay
    "relay": Story(
        scene=(
            _submit("a", "answer", "answer", send=False, resend_seconds=0.01),
            _submit("b", "answer", send=False),
            methodcaller("abandon", "b"),
            _submit("c", "answer", send=False, in_seconds=0.1),
            _submit("d", "fail", send=False),
            methodcaller("fail", "d"),
        ),
        role="relay",
    ),
    # --- an API
    "submit": Story(role="api", requests=_REQUESTS),
    "submit on busy": Story(
        role="api",
        requests=(_merge("a", "first"), _merge("a", "second"), _merge("b", "third"), _merge("a", "second")),
    ),
    "submit responses lost": Story(role="api", requests=_REQUESTS, preludes=2 * _prelude(SUBMIT, FaultKind.CUT)),
    "submit refused": Story(role="api", requests=_REQUESTS, preludes=_prelude(SUBMIT, FaultKind.REFUSED)),
    # --- an application, with a transaction of its own for each request
    "submit in a transaction": Story(role="application", requests=_REQUESTS),
    # --- an operator
    "redrive": Story(
        scene=(
            *(_submit(session, "fail once", send=False) for session in "abc"),
            *(methodcaller("fail", session) for session in "abc"),
            _relay,
        ),
        role="redrive",
    ),
    # --- an erasure: a client asks an API for it, and a relay goes on with it
    "erasure asked for": Story(scene=(_submit("a", "answer", "answer", send=False),), role="erase"),
    "erasure": Story(
        scene=(
            _submit("a", "answer", "answer", send=False),
            methodcaller("cancel_before", "a"),
            methodcaller("archive_first", "a"),
            methodcaller("ask_to_erase", "a"),
        ),
        role="relay",
    ),
    "erasure of a tenant": Story(
        scene=(
            _submit("a", "answer", send=False),
            methodcaller("cancel_before", "a"),
            methodcaller("ask_to_erase", None),
        ),
        role="relay",
    ),
}
