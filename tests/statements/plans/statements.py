"""The hot statements and their parameters, mostly for ten turns of a burst."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, LiteralString
from uuid import UUID, uuid4

from tests.statements.plans.crowd import ARRIVALS, LONG, MANY, QUEUE, STAMP, TENANT, turn_id
from turnstile.memory import durable_items as memory_items
from turnstile.ops.sessions import halted_session as halting
from turnstile.ops.sessions import wake_turn
from turnstile.ops.turns import attempts
from turnstile.ops.why import read_wait_facts
from turnstile.queries import open_turns, session_messages, session_state, session_turns
from turnstile.queries.session_state import RECENT_TURNS
from turnstile.retention import delete_turns
from turnstile.sealing.contents import PLAIN
from turnstile.statements import cancel as cancellation
from turnstile.statements import cancel_before_submit as chosen_ids
from turnstile.statements import (
    claim,
    defer,
    lost_turns,
    peek_heads,
    place_scheduled,
    revive,
    session_head,
    settle,
    start_children,
    turns_ahead,
    waiting_tenants,
    webhooks,
)
from turnstile.statements import compensate as compensation
from turnstile.statements import join as joining
from turnstile.statements import once_values as recorded_values
from turnstile.statements import owed_messages as relay_statements
from turnstile.statements import read_claims as reading_claims
from turnstile.statements import renew_lease as renew
from turnstile.statements import submit as submission
from turnstile.statements import submit_on_busy as double_texting
from turnstile.statements.submit import ParentClaim, Submission, submit_parameters
from turnstile.statements.submit_in_transaction import SUBMIT_TURN, request_of
from turnstile.turn.identifiers import TraceContext

TURNS = 10
NUMBERS = range(1, TURNS + 1)


@dataclass(frozen=True, slots=True)
class Call:
    """A statement and its parameters."""

    name: str
    statement: LiteralString
    parameters: Mapping[str, Any]
    pinned_only: bool = False
    """Whether only its pinned plans count. With stale statistics, a plan that is made for one session may sort all its turns."""
    long: bool = False
    """Whether it finds the open turns of a long session. While the planner knows only five turns, two indexes of sessions look
    alike to it, and the plan may read all turns of the session. An ANALYZE ends such a plan, also a pinned one."""


def _ids(kind: str) -> list[UUID]:
    return [turn_id(kind, number) for number in NUMBERS]


def _sessions(kind: str) -> dict[str, Any]:
    return {"tenants": [TENANT] * TURNS, "sessions": [f"burst{kind}-{number}" for number in NUMBERS]}


def _session(kind: str) -> dict[str, Any]:
    return {"tenant": TENANT, "session": f"burst{kind}-1"}


def _claims() -> list[UUID]:
    return [turn_id("claim", number) for number in NUMBERS]


_FENCES = list(NUMBERS)
_COMPENSATING = {"compensates": True, "compensation_expires": 900.0}
_TERMS = {"queue": QUEUE, "worker": "w", "lease": 30.0}


def _claim(kind: str, *, halt: bool, max_crashes: int = 3) -> dict[str, Any]:
    fresh = {"claims": [uuid4() for _ in NUMBERS], "most_crashes": [9] * TURNS, "turns": [None] * TURNS}
    return {**_sessions(kind), **fresh, **_TERMS, **_COMPENSATING, "halt": halt, "max_crashes": max_crashes}


def _settle(status: str, outcome: str, *, halt: bool) -> dict[str, Any]:
    def same(value: Any) -> list[Any]:
        return [value] * TURNS

    return {
        "ids": _ids("running"), "fences": _FENCES, "statuses": same(status), "outcomes": same(outcome),
        "replies": same('"said"'), "afters": same(0.0), "refunds": same(False), "faults": same(status == "FAILED"),
        "error_classes": same(None), "errors": same(None), "dead_letters": same(True), "mores": same(True),
        "claims": [uuid4() for _ in NUMBERS], "joinings": same(None), "join_policies": same(None), "partials": same(None),
        "tracebacks": same(None), "queue": QUEUE, "worker": "w", "release": "", "lease": 30.0, "halt": halt,
    }  # fmt: skip


def _submit(**fields: Callable[[int], Any]) -> dict[str, Any]:
    wanted = [_submission(number, **{name: value(number) for name, value in fields.items()}) for number in NUMBERS]
    return submit_parameters(wanted, 60.0, PLAIN)


def _submission(number: int, **its: Any) -> Submission:
    return Submission(
        turn_id=its.pop("turn_id", None) or uuid4(), tenant_id=TENANT, session_id=its.pop("session_id", f"fresh-{number}"),
        queue=QUEUE, content="said", fingerprint=b"x", trace=TraceContext("0" * 32, "0" * 16), **its,
    )  # fmt: skip


def _submit_in_transaction(**its: Any) -> dict[str, Any]:
    return {"request": request_of(_submission(1, **its), PLAIN)}


def _keys() -> dict[str, Any]:
    keys = [f"key:burstwaiting-{number}" for number in NUMBERS]
    no_parents = {"parents": [None] * TURNS, "child_keys": [None] * TURNS}
    return {"ords": list(NUMBERS), "tenants": [TENANT] * TURNS, "keys": keys, "ids": _ids("waiting"), **no_parents}


def _revive() -> dict[str, Any]:
    traces = {"traces": ["0" * 32] * TURNS, "spans": ["0" * 16] * TURNS, "expires": [900.0] * TURNS}
    return {"ids": _ids("failed"), "generations": [1] * TURNS, **traces, "resend_after": 60.0, "dropped": True}


def _items() -> dict[str, Any]:
    one = {"kinds": ["fact"], "keys": ["key"], "contents": ["1"], "contexts": [None], "priorities": [0], "tags": [""]}
    return {**_whose(), **one, "seconds": [60.0], "expected": [None], "write_id": uuid4()}


def _whose() -> dict[str, Any]:
    return {**_session("running"), "turn": turn_id("running", 1), "fence": 1}


def _long() -> dict[str, Any]:
    middle = MANY // 2
    bounds = {"before": middle, "limit": 20, "max_bytes": 1_000_000, "seq": middle, "ordinal": 0}
    return {"tenant": TENANT, "session": f"burst{LONG}", **bounds}


def _looks(kind: str) -> dict[str, Any]:
    told = {"seqs": [1] * TURNS, "sinces": [STAMP - timedelta(days=36_500)] * TURNS}
    return {**_sessions(kind), "ords": list(NUMBERS), "named": _ids(kind), **told}


def _of_a_long_session() -> Iterator[Call]:
    session = {"tenant": TENANT, "session": f"burst{LONG}"}
    sessions = {"tenants": [TENANT], "sessions": [f"burst{LONG}"]}
    new = {
        "claims": [uuid4()],
        "most_crashes": [9],
        "turns": [None],
        "halt": False,
        "max_crashes": 3,
        **_TERMS,
        **_COMPENSATING,
    }
    running = {"ids": [turn_id("long", MANY + 1)], "fences": [MANY + 1], "mores": [False]}
    claimed = {"claims": [turn_id("longclaim", MANY + 1)]}
    ten = _settle("SUCCEEDED", "succeeded", halt=False)
    settling = {name: value[:1] if isinstance(value, list) else value for name, value in ten.items()}
    yield Call("claim, of a long session", claim.CLAIM, {**sessions, **new}, long=True)
    yield Call("read the claim, of a long session", reading_claims.READ_CLAIMS, {**sessions, **claimed}, long=True)
    yield Call("settle, of a long session", settle.SETTLE, {**settling, **running}, long=True)
    yield Call("peek, of a long session", peek_heads.PEEK_HEADS, {**sessions, "queue": QUEUE}, long=True)
    yield Call("defer, of a long session", defer.DEFER, {**sessions, "seconds": [10.0]}, long=True)
    yield Call("wake the head, of a long session", session_head.WAKE_HEAD, session, long=True)
    told = {"ords": [0], "named": [None], "seqs": [MANY], "sinces": [STAMP - timedelta(days=36_500)]}
    yield Call("look ahead, of a long session", session_turns.LOOK_AHEAD, {**sessions, **told}, long=True)
    yield Call("busy with, of a long session", double_texting.BUSY_WITH, session, long=True)
    yield Call("lock open turns, of a long session", cancellation.LOCK_OPEN, {**session, "scheduled": True}, long=True)
    shown = {**session, "most": TURNS, "max_bytes": 1_000_000, "recent": RECENT_TURNS, "statuses": ["FAILED"]}
    yield Call("open turns with inputs, of a long session", session_state.OPEN_TURNS, shown, long=True)
    yield Call("ended turns with inputs, of a long session", session_state.ENDED_TURNS, shown, long=True)


def calls() -> Iterator[Call]:
    """The statements of API, worker, relay and operators."""
    running, failed, waiting = turn_id("running", 1), turn_id("failed", 1), turn_id("waiting", 1)
    of_running = {"ids": _ids("running"), "fences": _FENCES}
    many = {"id": waiting, "ids": _ids("waiting"), "tenant": TENANT, "reason": "user"}
    for halt in (False, True):
        where = ", on a queue that halts" if halt else ""
        yield Call(f"claim waiting turns{where}", claim.CLAIM, _claim("waiting", halt=halt))
        yield Call(f"claim lost turns{where}", claim.CLAIM, _claim("lost", halt=halt))
        yield Call(f"claim turns lost once too often{where}", claim.CLAIM, _claim("lost", halt=halt, max_crashes=1))
        yield Call(f"settle{where}", settle.SETTLE, _settle("SUCCEEDED", "succeeded", halt=halt))
        yield Call(f"fail{where}", settle.SETTLE, _settle("FAILED", "failed", halt=halt))
    yield Call("put back", settle.SETTLE, _settle("PENDING", "retried", halt=False))
    yield Call("find lost turns", lost_turns.FIND_LOST, {"queue": QUEUE, "limit": TURNS, "but_tenants": []})
    ahead = {"queue": QUEUE, "behind": 10.0, "limit": TURNS, "but_tenants": [], "most": 10 * TURNS}
    yield Call("peek heads", peek_heads.PEEK_HEADS, {**_sessions("waiting"), "queue": QUEUE})
    yield Call("find turns ahead", turns_ahead.FIND_AHEAD, ahead)
    yield Call("read claims", reading_claims.READ_CLAIMS, {**_sessions("running"), "claims": _claims()})
    yield Call("reread settled", settle.REREAD_SETTLED, {**of_running, "attempts": [1] * TURNS})
    yield Call(
        "compensate", compensation.COMPENSATE_FAILED, {"ids": _ids("failed"), "fences": _FENCES, **_COMPENSATING}
    )
    yield Call("renew", renew.RENEW, {**of_running, "lease": 30.0})
    yield Call("defer", defer.DEFER, {**_sessions("owed"), "seconds": [10.0] * TURNS})
    yield Call("find a waiting tenant", waiting_tenants.FIND_WAITING_TENANT, {"queue": QUEUE, "tenant": TENANT})
    yield Call("wake head", session_head.WAKE_HEAD, _session("owed"))
    yield Call("wake a turn", wake_turn.WAKE_TURN, {"id": waiting, "apply": True})
    yield Call("read what turns wait for", read_wait_facts.TURNS, {"ids": _ids("next")})
    yield Call("wake parents", joining.WAKE_PARENTS, {"ids": _ids("joining")})
    yield Call("wake joined", joining.WAKE_JOINED, {"limit": TURNS})
    yield Call("submit", submission.SUBMIT, _submit())
    yield Call("submit into a session", submission.SUBMIT, _submit(session_id=lambda n: f"burstwaiting-{n}"))
    yield Call("submit under a key", submission.SUBMIT, _submit(key=lambda n: f"key:{n}"))
    yield Call("submit under an id", submission.SUBMIT, _submit(turn_id=lambda n: uuid4(), chosen=lambda n: True))
    yield Call(
        "submit a child",
        submission.SUBMIT,
        _submit(parent=lambda n: ParentClaim(turn_id("running", n), n, "k", replaces=turn_id("failed", n))),
    )
    yield Call("read submissions", submission.READ_SUBMISSIONS, _keys())
    yield Call(
        "count open turns of sessions",
        open_turns.COUNT_OF_SESSIONS,
        {**_sessions("next"), "ords": list(NUMBERS), "most": TURNS},
    )
    yield Call("look ahead in sessions", session_turns.LOOK_AHEAD, _looks("waiting"))
    of_tenant = {"ords": [0], "tenants": [TENANT], "most": TURNS}
    yield Call("count open turns of a tenant", open_turns.COUNT_OF_TENANTS, of_tenant, long=True)
    yield Call("lock a turn's session", cancellation.LOCK_SESSION, many)
    yield Call("lock a session", cancellation.LOCK_NAMED_SESSION, _session("waiting"))
    yield Call("lock a turn", cancellation.LOCK_TURN, many)
    yield Call("lock open turns", cancellation.LOCK_OPEN, {**_session("running"), "scheduled": True})
    yield Call("cancel", cancellation.CANCEL_PENDING, many)
    yield Call("ask to stop", cancellation.REQUEST_CANCEL, {"ids": _ids("running"), "reason": "user"})
    yield Call("leave a tombstone", chosen_ids.LEAVE_TOMBSTONE, many)
    yield Call("lock a session to look", double_texting.LOCK_SESSION, _session("waiting"))
    yield Call("busy with", double_texting.BUSY_WITH, _session("running"))
    yield Call("lock the last", double_texting.LOCK_LAST, _session("running"))
    yield Call("add an input", double_texting.ADD_INPUT, {"id": waiting, "content": '"more"'})
    yield Call("read children", start_children.READ_CHILDREN, {"parent": running})
    yield Call("read depth", start_children.READ_DEPTH, {"turn": running, "most": 50})
    yield Call("read states", start_children.READ_STATES, {"parent": turn_id("joining", 1), "ids": _ids("child")})
    yield Call("read outputs", start_children.READ_OUTPUTS, {"ids": _ids("child")})
    yield Call("read values", recorded_values.READ_VALUES, _whose())
    yield Call("record a value", recorded_values.RECORD_VALUE, {**_whose(), "key": "new", "value": "1"})
    yield Call("reread a value", recorded_values.REREAD_VALUE, {**_whose(), "key": "key"})
    yield Call("write items", memory_items.WRITE_ITEMS, _items())
    yield Call("delete items", memory_items.DELETE_ITEMS, _items())
    yield Call("read items", memory_items.READ_ITEMS, {**_session("running"), "keys": None})
    yield Call("version", session_messages.VERSION, {**_long(), "before": 2**62}, pinned_only=True)
    yield Call("read a session", session_state.READ_SESSION, _session("waiting"))
    yield Call("history page", session_messages.HISTORY_PAGE, _long(), pinned_only=True)
    yield Call("history as text", session_messages.HISTORY_AS_TEXT, _long(), pinned_only=True)
    yield Call("lock what a redrive changes", revive.LOCK_FAILED, _revive())
    yield Call("redrive", revive.REVIVE, _revive())
    yield Call("read generations", revive.READ_GENERATIONS, {"ids": _ids("failed")})
    yield Call("find compensated", revive.FIND_COMPENSATED, {"ids": _ids("failed")})
    yield Call("read a halt", halting.READ_HALT, {"id": failed})
    yield Call("lock a halted session", halting.LOCK_HALTED, {"id": failed})
    retry = {"id": failed, "expires": 900.0, "trace": "0" * 32, "span": "0" * 16}
    yield Call("retry", halting.RETRY, retry)
    yield Call("owe a dead letter", halting.OWE_DEAD_LETTER, {"id": failed})
    yield Call("read attempts", attempts.READ, {"tenant": TENANT, "id": failed})
    yield from _of_a_long_session()
    yield from _calls_of_the_relay()
    known = {"key": "key:burstwaiting-1", "turn_id": waiting, "chosen": True}
    yield Call("submit in a transaction", SUBMIT_TURN, _submit_in_transaction())
    yield Call("submit in a transaction, under a key", SUBMIT_TURN, _submit_in_transaction(key="key:new"))
    yield Call("submit in a transaction, again", SUBMIT_TURN, _submit_in_transaction(**known))


def _calls_of_the_relay() -> Iterator[Call]:
    # Without MARK_LOST, which reads all RUNNING turns, by design: the slots bound their number.
    limit = {"limit": TURNS}
    asked: dict[str, Any] = {"left_out": [], "only": None}
    lines = {"queues": [QUEUE] * 2, "deads": [False, True], "limits": [TURNS] * 2, "reaches": [120.0] * 2}
    resend = {"resend_after": 60.0}
    yield Call("place scheduled turns", place_scheduled.PLACE_SCHEDULED, {**asked, "queues": [QUEUE], **limit})
    yield Call("place turns of new sessions", place_scheduled.PLACE_SCHEDULED, {**asked, "queues": [ARRIVALS], **limit})
    yield Call("take due rows", relay_statements.TAKE_DUE, {**asked, **lines, "stamp": 15.0, "resend": 5.0})
    yield Call(
        "set the resend deadline",
        relay_statements.SET_RESEND_DEADLINE,
        {"ids": _ids("waiting"), "stamps": [STAMP] * TURNS, **resend},
    )
    stamps = {"ids": _ids("waiting"), "stamps": [STAMP] * TURNS, "due_ats": [STAMP] * TURNS}
    places = {"to_hosts": "{}", "of_tenants": "{}", "per_host": TURNS, "per_tenant": TURNS}
    hooks = {"left_out": [], "only": None, "stamp": 60.0, **places, **limit}
    yield Call("take webhooks", webhooks.TAKE, hooks)
    yield Call("count due webhooks", webhooks.COUNT_DUE, limit)
    yield Call("give back unsent rows", relay_statements.GIVE_BACK, stamps)
    old = {"queues": [QUEUE], "seconds": [0.0], "archives": [False], "step_over": False, **limit}
    yield Call("delete ended turns", delete_turns.DELETE_ENDED, old)
    yield Call("note dead letters", relay_statements.DEAD_LETTERED, {"ids": _ids("failed"), "generations": [1] * TURNS})
