"""Logs: no settlement is logged that was not made (I2), and no failure without a cause (LOGS)."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tests.proof.checker.evidence import Evidence, LogLine
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import FREE, STATUS_AFTER, TERMINAL

SUPERSEDED = "turn.superseded"
ENDS = {f"turn.{outcome}": status for outcome, status in STATUS_AFTER.items() if status in TERMINAL}
PAUSES = {f"turn.{outcome}": outcome for outcome in (*FREE, "retried")}

TRACEBACK = "Traceback (most recent call last)"
BUGS = frozenset({"consumer.failed", "heartbeat.failed", "relay.step_failed"})
"""Events that the product writes where something happened that it knows nothing of."""
LOOP_STUCK = "watchdog.loop_stuck"
FAR_SECONDS = 600.0
"""So far outside of the run no line can have been written by the machine's clock."""

AWAY = (
    "UnavailableError",
    "OperationalError",
    "AdminShutdown",
    "CannotConnectNow",
    "ConnectionError",
    "InterfaceError",
)
"""How the classes end whose cause may be a server that was away."""


def reports_true(ledger: Ledger) -> Iterator[Violation]:
    """I2, as the workers tell it: every end that a worker reports was committed, every claim given up was taken over.

    A worker that is killed between commit and log line reports too little, never too much.
    """
    told: Counter[tuple[str, str]] = Counter()
    for line in ledger.evidence.logs:
        if line.turn_id is not None and (line.event in ENDS or line.event in PAUSES or line.event == SUPERSEDED):
            told[line.turn_id, line.event] += 1
    if not told:
        return
    made: Counter[tuple[str, str]] = Counter()
    for turn_id, changes in ledger.changes.items():
        for change in changes:
            for event in (event for event, status in ENDS.items() if status == change.after):
                made[turn_id, event] += 1
        for record in ledger.attempts.get(turn_id, ()):
            made[turn_id, f"turn.{record.outcome}"] += f"turn.{record.outcome}" in PAUSES
    for turn_id, _ in ledger.takeovers:
        made[turn_id, SUPERSEDED] += 1
    for (turn_id, event), many in told.items():
        if many > made[turn_id, event]:
            says = f"workers logged {event} {many} times, and it happened {made[turn_id, event]} times"
            yield Violation("I2", says, turn_id, ledger.session_of(turn_id))


def processes_sound(ledger: Ledger) -> Iterator[Violation]:
    """LOGS: no raw traceback, no failure or alarm without a fault that explains it, no process that died by itself."""
    evidence = ledger.evidence
    for line in evidence.logs:
        if line.event == "(raw)":
            if TRACEBACK in line.text:
                yield Violation("LOGS", f"{line.role} {line.pid} wrote a raw traceback")
        elif (line.level == "critical" or line.event in BUGS) and not _explained(ledger, line):
            says = f"{line.role} {line.pid} logged {line.event} ({line.level}): {_cause(line)}"
            yield Violation("LOGS", says, line.turn_id)
    for life in evidence.lives:
        if life.what == "ended" and not life.meant:
            yield Violation("LOGS", f"{life.role} {life.pid} ended by itself with code {life.code}")


def logged_at(line: LogLine) -> float | None:
    """When the line was written, by the clock of its process; None if it does not say."""
    try:
        return datetime.fromisoformat(json.loads(line.text)["timestamp"]).timestamp()
    except (ValueError, KeyError, TypeError):
        return None


def _explained(ledger: Ledger, line: LogLine) -> bool:
    if line.event in BUGS and not _cause(line).partition(":")[0].endswith(AWAY):
        # A server that is away raises what the product knows; anything else is a mistake in it.
        return False
    if line.event == LOOP_STUCK and line.pid in _blocked_on_purpose(ledger):
        return True
    at, evidence = logged_at(line), ledger.evidence
    if at is None or _by_another_clock(evidence, at):
        return bool(evidence.faults)
    reach = evidence.terms.lease_seconds + evidence.terms.grace_seconds
    return any(fault.at <= at <= fault.until + reach for fault in evidence.faults)


def _blocked_on_purpose(ledger: Ledger) -> set[int]:
    """The processes whose handler was told to block the event loop: it may do so long after the submit."""
    told = {
        turn_id
        for turn_id, said in ledger.said.items()
        if any(
            one.role == "user" and isinstance(one.content, dict) and one.content.get("do") == "block" for one in said
        )
    }
    return {run.pid for (turn_id, _), run in ledger.began.items() if turn_id in told}


def _by_another_clock(evidence: Evidence, at: float) -> bool:
    """The process had its clock shifted, so that its times can't be compared with those of the faults."""
    first = evidence.audit[0].at if evidence.audit else at
    last = evidence.audit[-1].at if evidence.audit else at
    return not first - FAR_SECONDS <= at <= last + FAR_SECONDS


def _cause(line: LogLine) -> str:
    """The last line of its exception, or what names the class of the error."""
    try:
        values: Any = json.loads(line.text)
    except ValueError:
        return ""
    text = str(values.get("exception") or values.get("error") or values.get("part") or values.get("error_class") or "")
    return text.strip().rpartition("\n")[2]
