"""Evidence for the checker's tests, written as a story: what a correct product would have left behind.

Each method is one thing that happened; the scene keeps the rows and writes what the audit, the handler, the clients, the
wire and Redis would have said of it. A test that wants a violation writes a correct story and then changes one record.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tests.proof.checker.evidence import (
    Call,
    Evidence,
    HandlerRun,
    LogLine,
    QueuedMessage,
    RedisCommand,
    Terms,
    WireCall,
)
from tests.proof.checker.tables import AttemptRecord, Change, HaltChange, Row, Said
from tests.proof.checker.vocabulary import STATUS_AFTER

LEASE = 1.5
TENANT = "t"
ECHO = {"do": "echo"}

TERMS = Terms(
    name="scene", seed=1, lease_seconds=LEASE, grace_seconds=1.0, resend_seconds=4.0, max_attempts=3, max_crashes=3,
    slots=64, bound_seconds=60.0, healed_at=0.0, rested_at=None,
)  # fmt: skip


@dataclass(slots=True)
class Turn:
    """A row as it stands, and what the audit does not keep."""

    row: Row
    content: Any


@dataclass(slots=True)
class Scene:
    """The product, its clients and its servers, all at once; `at` is the time, in seconds."""

    at: float = 100.0
    evidence: Evidence = field(default_factory=lambda: Evidence(terms=TERMS))
    turns: dict[str, Turn] = field(default_factory=dict)
    _fence: int = 0
    _seqs: dict[str, int] = field(default_factory=dict)

    def play(self, steps: str) -> Self:
        """Steps between commas, each a method and its arguments: `submit, claim, settle a retried`."""
        for step in steps.split(","):
            name, *arguments = step.split()
            getattr(self, name)(*arguments)
        return self

    # --- clients

    def submit(
        self,
        turn_id: str = "a",
        *,
        session: str = "s",
        content: Any = ECHO,
        key: str | None = None,
        outcome: str = "ok",
        scheduled: bool = False,
        canceled: bool = False,
        max_attempts: int | None = None,
    ) -> Self:
        """A submit that made the turn; `outcome` is what its client knows of it. `canceled`: its cancel came first."""
        self.ask("submit", turn_id, session=session, content=content, key=key, outcome=outcome, status="PENDING")
        row = Row(
            turn_id=turn_id, tenant=TENANT, session=session,
            seq=None if scheduled or canceled else self._next_seq(session),
            status="PENDING", attempt=0, failures=0, crashes=0, max_attempts=max_attempts, generation=1, fence=0,
            lease_until=None, send_at=self.at + (1 if scheduled else 4), cancel_requested=False, error_class=None,
            dead_lettered_at=None,
        )  # fmt: skip
        if canceled:
            row = replace(row, status="CANCELED", cancel_requested=True, send_at=None)
        self.turns[turn_id] = Turn(row, content)
        self.evidence.messages.append(Said(turn_id=turn_id, ordinal=0, role="user", kind="message", content=content))
        self._audit(None, row)
        return self

    def merge(self, turn_id: str = "a", *, content: Any = ECHO, session: str = "s", **said: Any) -> Self:
        """A submit whose input was added to a turn that waits."""
        ordinal = sum(entry.turn_id == turn_id for entry in self.evidence.messages)
        self.evidence.messages.append(
            Said(turn_id=turn_id, ordinal=ordinal, role="user", kind="message", content=content)
        )
        return self.ask("submit", turn_id, session=session, content=content, **said)

    def ask(self, op: str, turn_id: str, *, outcome: str = "ok", **said: Any) -> Self:
        """A call of a client. A refused or unanswered submit does not know its turn."""
        begun, ended = self._tick(), self._tick() + 0.009
        known = {"turn_id": turn_id} if outcome == "ok" or op != "submit" else {}
        if outcome != "ok":
            said.pop("status", None)
        http = {"ok": 202, "fail": 409, "unknown": None}[outcome]
        said.setdefault("http", http)
        said.setdefault("client", "anna")
        self.evidence.history.append(
            Call(op=op, at=begun, until=ended, outcome=outcome, tenant=TENANT, **{**known, **said})
        )
        return self

    def read(self, turn_id: str = "a", **said: Any) -> Self:
        """A read that shows what stands in the row, unless `said` says otherwise."""
        row = self.turns[turn_id].row
        return self.ask("read", turn_id, **{"http": 200, "status": row.status, "generation": row.generation, **said})

    def cancel(self, turn_id: str = "a") -> Self:
        """An acknowledged cancel of a turn that waits or runs."""
        row = self.turns[turn_id].row
        if row.status == "PENDING":
            row = self._change(turn_id, status="CANCELED", cancel_requested=True, send_at=None)
        elif row.status == "RUNNING":
            row = self._change(turn_id, cancel_requested=True)
        return self.ask("cancel", turn_id, status=row.status)

    # --- workers

    def claim(
        self, turn_id: str = "a", *, heard: Sequence[str] | None = None, runs: bool = True, inputs: int | None = None
    ) -> Self:
        """A claim of a turn that waits, and its handler's beginning."""
        row = self.turns[turn_id].row
        self._fence += 1
        now = self._tick()
        self._change(
            turn_id, status="RUNNING", attempt=row.attempt + 1, fence=self._fence, lease_until=now + LEASE, send_at=None
        )
        return self.run(turn_id, "began", heard=heard, inputs=inputs) if runs else self

    def run(self, turn_id: str = "a", what: str = "ended", **more: Any) -> Self:
        """A line that the handler wrote, under the turn's present fence."""
        row = self.turns[turn_id].row
        run = HandlerRun(
            at=self._tick(), what=what, turn_id=turn_id, session=row.session, attempt=row.attempt, fence=row.fence,
            pid=7, **more,
        )  # fmt: skip
        self.evidence.runs.append(run)
        return self

    def settle(self, turn_id: str = "a", outcome: str = "succeeded", error_class: str | None = None) -> Self:
        """The end of a claim under its own fence. A cancel that was requested before wins."""
        row = self.turns[turn_id].row
        if row.cancel_requested:
            outcome = "canceled"
        status = STATUS_AFTER[outcome]
        self._record(turn_id, outcome)
        self._change(
            turn_id,
            status=status,
            attempt=row.attempt - (outcome in {"snoozed", "released", "joined"}),
            failures=row.failures + (outcome in {"retried", "failed"}),
            crashes=0 if outcome in {"retried", "snoozed", "joined"} else row.crashes,
            lease_until=None,
            send_at=self.at if status == "PENDING" or (status == "FAILED" and self._worth_a_letter(turn_id)) else None,
            error_class=error_class or ("Boom" if outcome in {"retried", "failed"} else None),
        )
        if status == "SUCCEEDED":
            reply = {"turn": turn_id, "fence": row.fence}
            self.evidence.messages.append(
                Said(turn_id=turn_id, ordinal=1, role="assistant", kind="message", content=reply)
            )
        return self

    def take_over(self, turn_id: str = "a", status: str = "RUNNING") -> Self:
        """The lease runs out, and the next claim finds it so: runs the turn again, or ends it."""
        row = self.turns[turn_id].row
        self.at = max(self.at, (row.lease_until or self.at) + 0.1)
        self._record(turn_id, "lost")
        self._fence += 1
        now = self._tick()
        running = status == "RUNNING"
        self._change(
            turn_id,
            status=status,
            attempt=row.attempt + running,
            crashes=row.crashes + 1,
            fence=self._fence,
            lease_until=now + LEASE if running else None,
            send_at=now if status == "FAILED" else None,
            error_class="crash_loop" if status == "FAILED" else row.error_class,
        )
        return self.run(turn_id, "began") if running else self

    # --- relay and redrive

    def place(self, turn_id: str = "a") -> Self:
        """A scheduled turn falls due."""
        self._change(turn_id, seq=self._next_seq(self.turns[turn_id].row.session))
        return self

    def dead_letter(self, turn_id: str = "a") -> Self:
        """The dead letter that a FAILED turn is owed goes out."""
        turn = self.turns[turn_id]
        turn.row = replace(turn.row, send_at=None, dead_lettered_at=self._tick())
        attributes = {"turnstile.generation": str(turn.row.generation), "turnstile.reason": str(turn.row.error_class)}
        return self.queue(body_of(turn_id), dead=True, **attributes)

    def queue(self, body: str, *, dead: bool, **attributes: str) -> Self:
        """A message that is found on a queue at rest."""
        name = "q-dlq" if dead else "q"
        number = f"m{len(self.evidence.queued)}"
        self.evidence.queued.append(
            QueuedMessage(queue=name, dead=dead, message_id=number, body=body, attributes=attributes)
        )
        return self

    def redrive(self, turn_id: str = "a") -> Self:
        """A FAILED turn goes back to work, at the end of its session."""
        row = self.turns[turn_id].row
        self._change(
            turn_id, status="PENDING", seq=self._next_seq(row.session), generation=row.generation + 1, attempt=0,
            failures=0, crashes=0, send_at=self.at + 4, error_class=None, dead_lettered_at=None,
            cancel_requested=False,
        )  # fmt: skip
        return self

    # --- a halting queue

    def halt(self, turn_id: str = "a") -> Self:
        """In the commit that made it FAILED, the turn halts its session, and owes no dead letter."""
        turn = self.turns[turn_id]
        turn.row = replace(turn.row, send_at=None)
        return self._halt(turn_id, None, turn_id, txid=self.evidence.audit[-1].txid)

    def skip(self, turn_id: str = "a") -> Self:
        """A person passes the turn over: its dead letter is owed."""
        turn = self.turns[turn_id]
        turn.row = replace(turn.row, send_at=self._tick())
        return self._halt(turn_id, turn_id, None)

    def _halt(self, turn_id: str, before: str | None, after: str | None, txid: int = 10_000) -> Self:
        row = self.turns[turn_id].row
        halt = HaltChange(
            n=self._next_number(), at=self._tick(), txid=txid, tenant=TENANT, session=row.session, before=before,
            after=after,
        )  # fmt: skip
        self.evidence.halts.append(halt)
        return self

    # --- the wire, Redis, logs

    def wire(self, action: str, turn_id: str | None = "a", *, dead: bool = False, body: str | None = None) -> Self:
        """One SQS call that was done and answered."""
        session = self.turns[turn_id].row.session if turn_id in self.turns else None
        call = WireCall(
            at=self._tick(), action=action, queue="q", dead=dead, message_id="m", turn_id=turn_id, session=session,
            effective=True, answered=True, body=body,
        )  # fmt: skip
        self.evidence.wire.append(call)
        return self

    def script(self, token: str, *commands: Sequence[str]) -> Self:
        """A Lua script of the lock of session `s`, and the commands that it ran."""
        self.redis("10.0.0.1:5", "EVAL", "", "2", lock_of("s"), f"{lock_of('s')}:waiting", token, "1500")
        for words in commands:
            self.redis("lua", *words)
        return self

    def redis(self, source: str, *words: str) -> Self:
        """A command as Redis executed it."""
        self.evidence.redis.append(RedisCommand(at=self._tick(), source=source, words=list(words)))
        return self

    def log(self, event: str, turn_id: str | None = "a", *, level: str = "info", **more: Any) -> Self:
        """A line of a worker's log."""
        text = json.dumps({"event": event, "level": level, **more})
        self.evidence.logs.append(LogLine(role="worker", pid=7, event=event, level=level, text=text, turn_id=turn_id))
        return self

    def wait(self, seconds: float | str) -> Self:
        """Time goes by."""
        self.at += float(seconds)
        return self

    # ---

    def rest(self, **terms: Any) -> Evidence:
        """The run comes to its end; all that it left behind."""
        now = self._tick()
        self.evidence.terms = replace(TERMS, **{"healed_at": now - 1, "rested_at": now, **terms})
        self.evidence.turns = [turn.row for turn in self.turns.values()]
        return self.evidence

    def _tick(self) -> float:
        self.at = round(self.at + 0.01, 6)
        return self.at

    def _next_number(self) -> int:
        kinds = (self.evidence.audit, self.evidence.halts, self.evidence.joins, self.evidence.memory_changes)
        return sum(len(kind) for kind in kinds) + 1

    def _next_seq(self, session: str) -> int:
        self._seqs[session] = self._seqs.get(session, 0) + 1
        return self._seqs[session]

    def _worth_a_letter(self, turn_id: str) -> bool:
        return bool(self.turns[turn_id].content.get("dead_letter", True))

    def _record(self, turn_id: str, outcome: str) -> None:
        row = self.turns[turn_id].row
        record = AttemptRecord(
            turn_id=turn_id, attempt=row.attempt, fence=row.fence, generation=row.generation, worker="w",
            finished_at=self._tick(), outcome=outcome,
        )  # fmt: skip
        self.evidence.attempts.append(record)

    def _change(self, turn_id: str, **changed: Any) -> Row:
        before = self.turns[turn_id].row
        after = replace(before, **changed)
        self.turns[turn_id].row = after
        self._audit(before, after)
        return after

    def _audit(self, before: Row | None, after: Row) -> None:
        change = Change(
            n=self._next_number(), at=self._tick(), txid=len(self.evidence.audit), turn_id=after.turn_id,
            tenant=after.tenant, session=after.session, seq=after.seq, before=before.status if before else None,
            after=after.status, attempt_before=before.attempt if before else None, attempt=after.attempt,
            failures=after.failures, crashes=after.crashes, generation=after.generation,
            fence_before=before.fence if before else None, fence=after.fence, worker="w", lease_until=after.lease_until,
            lease_before=before.lease_until if before else None, execute_at=None, send_at=after.send_at,
            cancel_requested=after.cancel_requested, error_class=after.error_class,
        )  # fmt: skip
        self.evidence.audit.append(change)


def lock_of(session: str) -> str:
    """The key of a session's lock."""
    return f"chaos:lock:session:{{{TENANT}/{session}}}"


def body_of(turn_id: str) -> str:
    """The body of a turn's message."""
    return json.dumps({"v": 1, "tenant_id": TENANT, "session_id": "s", "turn_id": turn_id})
