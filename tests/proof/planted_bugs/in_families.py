"""Bugs in what turns bring about: children, joins, what is done once, compensations."""

import json
from dataclasses import replace as with_fields
from typing import Any
from uuid import uuid4

import turnstile.statements.join
import turnstile.statements.settle
import turnstile.worker.attempt.children
import turnstile.worker.attempt.once
from tests.proof.planted_bugs.patching import alter, instead_of, replace, settle_otherwise
from tests.proof.planted_bugs.planted_bug import planted
from turnstile.statements.once_values import RecordedValue
from turnstile.statements.session_head import IS_FAILED
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt.outcome import Joining


# Each parent that waits for them starts some more in its next run: the first are too many.
@planted("I3", "relay-sigkill", families=0.3, seconds=5.0)
def children_started_again() -> None:
    """A handler that runs again starts its children again."""
    replace(turnstile.worker.attempt.children, "make_child_id", lambda original: lambda *args: uuid4())

    @instead_of(turnstile.worker.attempt.children, "read_children")
    async def read(original: Any, database: Any, parent_id: Any) -> dict[str, Any]:
        return {}


@planted("I7", "relay-sigkill", families=0.5)
def join_charges_an_attempt() -> None:
    """A join charges an attempt."""
    settle_otherwise(lambda outcome: isinstance(outcome, Joining), refund=False)


# Children that take their time.
@planted("I16", "relay-sigkill", families=0.5, sleep_seconds=(0.5, 1.5))
def join_polls() -> None:
    """A parent that waits is due at once, again and again."""
    settle_otherwise(lambda outcome: isinstance(outcome, Joining), after_seconds=0.0)


@planted("I3", "relay-sigkill", families=0.5)
def join_ends_with_the_first_child() -> None:
    """`all` is treated as `any`: a join ends when one child has ended."""

    @instead_of(turnstile.worker.attempt.children, "is_joined")
    def is_joined(original: Any, states: Any, policy: Any) -> bool:
        return original(states, policy) or any(not state.status.is_open for state in states)

    child = "SELECT FROM turns c WHERE c.id = ANY (t.joining) AND ('' || c.status)"
    none_is_open = (
        f"NOT EXISTS ({child} IN ('PENDING', 'RUNNING'))",
        f"EXISTS ({child} NOT IN ('PENDING', 'RUNNING'))",
    )
    for statement in ("WAKE_PARENTS", "WAKE_JOINED"):
        alter(turnstile.statements.join, statement, none_is_open)


@planted("I15", "relay-sigkill", families=0.3, seconds=5.0)
def parents_never_woken() -> None:
    """A parent is not woken when its children have ended."""
    for statement in ("WAKE_PARENTS", "WAKE_JOINED"):
        alter(turnstile.statements.join, statement, ("(t.status <> 'PENDING' OR (", "(t.status <> 'PENDING' AND ("))


@planted("I3", "relay-sigkill", families=0.5)
def once_not_recorded() -> None:
    """A value of `ctx.once` is not recorded."""

    @instead_of(turnstile.worker.attempt.once, "record_value")
    async def record_value(
        original: Any, database: Any, turn_id: Any, fence: int, key: str, value: str
    ) -> RecordedValue:
        return RecordedValue(json.loads(value))


@planted("I3", "relay-sigkill", families=0.8)
def once_not_looked_up() -> None:
    """A retry repeats what was done once, and then finds the recorded value."""

    @instead_of(turnstile.worker.attempt.once, "read_values")
    async def read_values(original: Any, database: Any, turn_id: Any) -> dict[str, Any]:
        return {}


@planted("I3", "relay-sigkill", families=0.3)
def compensation_of_a_retry() -> None:
    """A compensation is created for a failed attempt that will be retried."""

    @instead_of(turnstile.statements.settle, "_compensations")
    def compensations(original: Any, terms: Any, requests: Any) -> Any:
        failing = [
            with_fields(request, settlement=with_fields(request.settlement, status=TurnStatus.FAILED))
            for request in requests
            if request.settlement.fault
        ]
        return original(terms, failing)

    alter(
        turnstile.statements.settle,
        "COMPENSATE_FAILED",
        (f"WHERE t.fence = f.fence AND {IS_FAILED}", "WHERE t.fence = f.fence"),
        ("WHERE f.status = 'FAILED' AND ", "WHERE "),
    )


# What fails must be redriven, and have failed again.
@planted("I1", "two-redrives", seconds=20.0, clients=12, pause_seconds=0.05)
def compensation_once_for_ever() -> None:
    """A redriven turn that fails again gets no second compensation."""
    alter(
        turnstile.statements.settle,
        "COMPENSATE_FAILED",
        ("'compensation/' || t.id || '/' || t.span_id || '/' || t.generation", "'compensation/' || t.id"),
    )
