"""Logs: no settlement is logged that was not made (I2), and no failure without a cause (LOGS)."""

import json
from collections import Counter
from datetime import datetime
from typing import Any

from tests.proof.checker.evidence import Evidence, HandlerRun, LogLine
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.rule import Findings, rule
from tests.proof.checker.vocabulary import FREE, STATUS_AFTER, TERMINAL

SUPERSEDED = "turn.superseded"
ENDS = {f"turn.{outcome}": status for outcome, status in STATUS_AFTER.items() if status in TERMINAL}
PAUSES = {f"turn.{outcome}": outcome for outcome in (*FREE, "retried")}

TRACEBACK = "Traceback (most recent call last)"
INTERNAL_ERROR = "turnstile: internal error: "
"""How a command reports an error that it does not know. Its exit code is that of many known errors, too."""
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


@rule("I2")
def reports_are_true(ledger: Ledger) -> Findings:
    """Every end that a worker reports was committed, every claim that it reports as superseded was taken over.

    A worker that is killed between commit and log line reports too little, never too much.
    """
    reported = Counter(
        (line.turn_id, line.event)
        for line in ledger.evidence.logs
        if line.turn_id is not None and line.event in (*ENDS, *PAUSES, SUPERSEDED)
    )
    for (turn_id, event), many in reported.items():
        if event == SUPERSEDED:
            made = sum(taken == turn_id for taken, _ in ledger.takeovers)
        elif event in PAUSES:
            made = sum(record.outcome == PAUSES[event] for record in ledger.attempts[turn_id])
        else:
            made = sum(change.after == ENDS[event] for change in ledger.changes[turn_id])
        if many > made:
            yield turn_id, f"workers logged {event} {many} times, and it happened {made} times"


@rule("LOGS")
def processes_are_sound(ledger: Ledger) -> Findings:
    """No raw traceback, no failure or alarm without a fault that explains it, no process that died by itself."""
    for line in ledger.evidence.logs:
        if line.event == "(raw)":
            if TRACEBACK in line.text:
                yield None, f"{line.role} {line.pid} wrote a raw traceback"
            if INTERNAL_ERROR in line.text:
                yield None, f"{line.role} {line.pid} ended with an error that it does not know: {line.text}"
        elif (line.level == "critical" or line.event in BUGS) and not _explained(ledger, line):
            yield line.turn_id, f"{line.role} {line.pid} logged {line.event} ({line.level}): {_cause(line)}"
    for life in ledger.evidence.lives:
        if life.what == "ended" and not life.meant:
            yield None, f"{life.role} {life.pid} ended by itself with code {life.code}"


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
    if line.event == LOOP_STUCK and any(run.pid == line.pid and _blocks(ledger, run) for run in ledger.began.values()):
        return True
    at = logged_at(line)
    if at is None or _by_another_clock(ledger.evidence, at):
        return bool(ledger.evidence.faults)
    return bool(ledger.faults_during(at - ledger.terms.lease_seconds - ledger.terms.grace_seconds, at))


def _blocks(ledger: Ledger, run: HandlerRun) -> bool:
    """The handler was asked to block the event loop: it may do so long after the submit."""
    return any(isinstance(one, dict) and one.get("do") == "block" for one in ledger.inputs_of(run.turn_id))


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
