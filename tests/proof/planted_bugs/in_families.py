"""Bugs in what turns bring about: children, joins, what is done once, compensations."""

import json
from collections.abc import Callable
from dataclasses import replace as with_fields
from typing import Any
from uuid import uuid4

import turnstile.statements.join
import turnstile.statements.settle
import turnstile.worker.attempt.children
import turnstile.worker.attempt.once
import turnstile.worker.settling
from tests.proof.planted_bugs.patching import alter, replace
from turnstile.statements.head import IS_FAILED
from turnstile.statements.once_values import RecordedValue
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt.outcome import Joining


def children_started_again() -> None:
    """A handler that runs again starts its children again."""
    replace(turnstile.worker.attempt.children, "make_child_id", lambda original: lambda *args: uuid4())

    def forgetful(original: Callable[..., Any]) -> Callable[..., Any]:
        async def read(database: Any, parent_id: Any) -> dict[str, Any]:
            return {}

        return read

    replace(turnstile.worker.attempt.children, "read_children", forgetful)


def join_charges_an_attempt() -> None:
    """To wait for one's children uses up the budget."""
    _joins_otherwise(refund=False)


def join_polls() -> None:
    """Whoever waits is due at once, and asks again and again."""
    _joins_otherwise(after_seconds=0.0)


def _joins_otherwise(**fields: Any) -> None:
    def otherwise(original: Callable[..., Any]) -> Callable[..., Any]:
        def decide(outcome: Any, *args: Any, **given: Any) -> Any:
            settlement = original(outcome, *args, **given)
            return with_fields(settlement, **fields) if isinstance(outcome, Joining) else settlement

        return decide

    replace(turnstile.worker.settling, "decide", otherwise)


def join_over_at_the_first() -> None:
    """All is taken for any: a join is over as soon as one child has ended."""

    def hasty(original: Callable[..., Any]) -> Callable[..., Any]:
        def is_joined(states: Any, policy: Any) -> bool:
            return original(states, policy) or any(not state.status.is_open for state in states)

        return is_joined

    replace(turnstile.worker.attempt.children, "is_joined", hasty)
    child = "SELECT FROM turns c WHERE c.id = ANY (t.joining) AND ('' || c.status)"
    none_is_open = (
        f"NOT EXISTS ({child} IN ('PENDING', 'RUNNING'))",
        f"EXISTS ({child} NOT IN ('PENDING', 'RUNNING'))",
    )
    for statement in ("WAKE_PARENTS", "WAKE_JOINED"):
        alter(turnstile.statements.join, statement, none_is_open)


def parents_never_woken() -> None:
    """Nobody tells a parent that its children have ended."""
    for statement in ("WAKE_PARENTS", "WAKE_JOINED"):
        alter(turnstile.statements.join, statement, ("(t.status <> 'PENDING' OR (", "(t.status <> 'PENDING' AND ("))


def once_not_recorded() -> None:
    """What was done once is remembered by the attempt, and by nobody else."""

    def fleeting(original: Callable[..., Any]) -> Callable[..., Any]:
        async def record_value(database: Any, turn_id: Any, fence: int, key: str, value: str) -> RecordedValue:
            return RecordedValue(json.loads(value))

        return record_value

    replace(turnstile.worker.attempt.once, "record_value", fleeting)


def once_not_looked_up() -> None:
    """A retry does it again, and then finds that it is recorded."""

    def blind(original: Callable[..., Any]) -> Callable[..., Any]:
        async def read_values(database: Any, turn_id: Any) -> dict[str, Any]:
            return {}

        return read_values

    replace(turnstile.worker.attempt.once, "read_values", blind)


def compensation_of_a_retry() -> None:
    """What an attempt has done is undone, although the next is to go on from there."""

    def eager(original: Callable[..., Any]) -> Callable[..., Any]:
        def compensations(terms: Any, requests: Any) -> Any:
            failing = [
                with_fields(request, settlement=with_fields(request.settlement, status=TurnStatus.FAILED))
                for request in requests
                if request.settlement.fault
            ]
            return original(terms, failing)

        return compensations

    replace(turnstile.statements.settle, "_compensations", eager)
    alter(
        turnstile.statements.settle,
        "COMPENSATE_FAILED",
        (f"WHERE t.fence = f.fence AND {IS_FAILED}", "WHERE t.fence = f.fence"),
        ("WHERE f.status = 'FAILED' AND ", "WHERE "),
    )


def compensation_once_for_ever() -> None:
    """A redriven turn that fails again finds that it has been compensated."""
    alter(
        turnstile.statements.settle,
        "COMPENSATE_FAILED",
        ("'compensation/' || t.id || '/' || t.generation", "'compensation/' || t.id"),
    )
