"""What a run leaves behind, and nothing else that the checker may look at.

A run (real processes, a crash-point cell) writes one folder of JSON lines, one file per kind of evidence, each line one of
the records below or in `tables`. Times are seconds since the epoch by the machine's real-time clock
(`time.clock_gettime(CLOCK_REALTIME)`; Postgres's `clock_timestamp()` is the same clock). A file that is missing is empty: a
run without a proxy has no `wire.jsonl`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_args

from tests.proof.checker.memory_evidence import Conversation, MemoryAct, MemoryChange, MemoryItem
from tests.proof.checker.tables import AttemptRecord, Change, HaltChange, JoinChange, RecordedValue, Row, Said
from tests.proof.checker.webhook_evidence import OwedWebhook, Posted

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """`run.json`: the run's settings and its end. In a calm run no fault is meant to happen, and no run may be wasted."""

    name: str
    seed: int
    lease_seconds: float
    grace_seconds: float
    resend_seconds: float
    max_attempts: int
    max_crashes: int
    slots: int
    bound_seconds: float
    """After the faults have stopped, everything must have settled within this."""
    healed_at: float
    rested_at: float | None
    """When every turn had ended and the main queue was empty; None if that was not within the bound."""
    calm: bool = False
    fifo: bool = False
    halts: bool = False
    """The queue is one where a FAILED turn halts its session."""
    compensates: bool = False
    """The handler says what to do about a turn that finally failed."""
    tenant_slots: int | None = None
    places: int | None = None
    """How many turns of one tenant all workers may run at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`history.jsonl`: one call of a client, as the client saw it."""

    client: str
    op: str
    """submit, cancel, cancel_session, erase, read, list, redrive. A submit's key is its Idempotency-Key, or `turn:<id>` where
    the client chose the id."""
    at: float
    until: float
    outcome: str
    """ok: answered 2xx; fail: certainly nothing was done (4xx, 503 before anything); unknown: no answer, or 5xx."""
    http: int | None = None
    tenant: str = ""
    session: str = ""
    key: str | None = None
    content: Any = None
    turn_id: str | None = None
    """submit: the answered id. cancel, read: the id asked about."""
    status: str | None = None
    generation: int | None = None
    output: Any = None
    wait: float | None = None
    """submit, read: how many seconds it asked to wait for the turn's end; None: it did not."""
    webhook: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerRun:
    """`runs.jsonl`: what the handler itself saw; appended by it before it does anything and after it has done it."""

    at: float
    what: str
    """began, ended (it returned or raised), cancelled; did, got: see `key`"""
    turn_id: str
    session: str
    attempt: int
    fence: int
    pid: int
    heard: Sequence[str] | None = None
    """began: the turn ids whose replies the handler was shown as the session's history, oldest first; None: not asked."""
    shown: Sequence[Any] | None = None
    """began: all that the handler was shown as the session's history, its own inputs at the end; None: not asked."""
    inputs: int | None = None
    """began: how many things the handler was given to answer; None: it does not say."""
    key: str | None = None
    """did: it does now what it asked to be done once under this key; got: it has been given what came of that."""
    value: Any = None
    """did: what comes of it; got: what it was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireCall:
    """`wire.jsonl`: one message in one SQS call, as seen by the proxy between the product and SQS.

    Effective: SQS did it. Answered: its response reached the caller. The body is kept of malformed messages only.
    """

    at: float
    """When the proxy had SQS's answer (or gave up)."""
    action: str
    """send, receive, delete, visibility"""
    queue: str
    dead: bool
    message_id: str | None
    turn_id: str | None
    """Read from the body; None for one that is malformed."""
    session: str | None
    effective: bool
    answered: bool
    body: str | None = None
    reason: str | None = None
    """send to the DLQ: the attribute turnstile.reason or what it is called; for reading a story."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """`queued.jsonl`: a message found on a queue at rest."""

    queue: str
    dead: bool
    message_id: str
    body: str
    attributes: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisKey:
    """`keys.jsonl`: a key found in Redis at rest, more than a lock's life after the last work."""

    key: str
    value: str
    ttl_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisCommand:
    """`redis.jsonl`: a command as Redis executed it (MONITOR), those inside Lua scripts too. In the order of execution."""

    at: float
    source: str
    """`lua` for a command that a script ran, otherwise the client's address; `gap` where the watcher lost sight for a while."""
    words: Sequence[str]
    """EVAL: the script itself is left out (`EVAL`, `''`, number of keys, keys..., args...)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`faults.jsonl`: what the nemesis did."""

    at: float
    until: float
    kind: str
    target: str
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """`lives.jsonl`: a process of the product."""

    at: float
    role: str
    """worker, api, relay, redrive"""
    pid: int
    what: str
    """started, ended"""
    code: int | None = None
    """ended: exit code, negative for a signal."""
    meant: bool = True
    """ended: the harness caused it; False: it died by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRead:
    """`streams.jsonl`: what one reader of a turn's event stream received, in order."""

    reader: str
    turn_id: str
    after: str | None
    """The Last-Event-ID it resumed from; None: from the start."""
    events: Sequence[dict[str, Any]]
    """each {id, event, data}; `data` as it was sent, JSON text"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One structured line of a process's log (`logs/<role>-<pid>.log`); lines that are not JSON have event `(raw)`."""

    role: str
    pid: int
    event: str
    level: str
    text: str
    turn_id: str | None = None


@dataclass(slots=True, kw_only=True)
class Evidence:
    """All of it. `runs`, `history` and `wire` may be in any order; `audit` and `redis` are in theirs."""

    terms: Terms
    history: list[Call] = field(default_factory=list)
    audit: list[Change] = field(default_factory=list)
    halts: list[HaltChange] = field(default_factory=list)
    joins: list[JoinChange] = field(default_factory=list)
    turns: list[Row] = field(default_factory=list)
    messages: list[Said] = field(default_factory=list)
    attempts: list[AttemptRecord] = field(default_factory=list)
    values: list[RecordedValue] = field(default_factory=list)
    runs: list[HandlerRun] = field(default_factory=list)
    wire: list[WireCall] = field(default_factory=list)
    queued: list[QueuedMessage] = field(default_factory=list)
    keys: list[RedisKey] = field(default_factory=list)
    redis: list[RedisCommand] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    streams: list[StreamRead] = field(default_factory=list)
    webhooks: list[OwedWebhook] = field(default_factory=list)
    posts: list[Posted] = field(default_factory=list)
    memory_acts: list[MemoryAct] = field(default_factory=list)
    memory_changes: list[MemoryChange] = field(default_factory=list)
    memory_items: list[MemoryItem] = field(default_factory=list)
    conversations: list[Conversation] = field(default_factory=list)
    logs: list[LogLine] = field(default_factory=list)


FILES: dict[str, type] = {
    one.name: get_args(one.type)[0] for one in fields(Evidence) if one.name not in {"terms", "logs"}
}
"""The files of a run, `<name>.jsonl`, and the records in them."""


def load(folder: Path) -> Evidence:
    """Reads a run's folder. A last line that was cut off by a kill is left out; any other bad line is an error."""
    evidence = Evidence(terms=Terms(**json.loads((folder / "run.json").read_text())))
    for name, kind in FILES.items():
        setattr(evidence, name, list(_records(folder / f"{name}.jsonl", kind)))
    for path in sorted((folder / "logs").glob("*.log")):
        role, _, pid = path.stem.rpartition("-")
        evidence.logs += _log_lines(path, role, int(pid))
    return evidence


def _records(path: Path, kind: type[Record]) -> Iterator[Record]:
    if not path.exists():
        return
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    lines = path.read_text("utf-8", errors="replace").splitlines(keepends=True)
    for place, line in enumerate(lines):
        try:
            values = json.loads(line)
        except ValueError:
            if place == len(lines) - 1 and not line.endswith("\n"):
                return
            raise ValueError(f"{path.name}:{place + 1} is not JSON: {line[:80]!r}") from None
        yield kind(**{name: value for name, value in values.items() if name in known})


def _log_lines(path: Path, role: str, pid: int) -> Iterator[LogLine]:
    for line in path.read_text("utf-8", errors="replace").splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            values = None
        if not isinstance(values, dict):
            yield LogLine(role=role, pid=pid, event="(raw)", level="", text=line)
            continue
        event, level = str(values.get("event", "")), str(values.get("level", ""))
        yield LogLine(role=role, pid=pid, event=event, level=level, text=line, turn_id=values.get("turn_id"))
