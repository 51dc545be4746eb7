"""Bugs in the relay and in the recovery of lost turns."""

from collections.abc import Awaitable
from typing import Any

import psycopg

import turnstile.relay.loop
import turnstile.relay.renewal_evidence
import turnstile.relay.wake_ups_and_dead_letters
import turnstile.statements.settle
import turnstile.worker.worker_process
from tests.proof.planted_bugs.patching import alter, instead_of, replace
from tests.proof.planted_bugs.planted_bug import planted
from turnstile.errors import QueueUnavailableError
from turnstile.relay.queue_selection import RelayQueues


class _Refused:
    """A queue that this process may not send to."""

    async def send(self, queue: str, messages: Any) -> Any:
        raise QueueUnavailableError(f"{queue} refuses this process")

    async def send_dead_letters(self, queue: str, letters: Any) -> Any:
        raise QueueUnavailableError(f"{queue} refuses this process")


@planted("I15", "sqs-purged")
def relay_keeps_rows_that_it_cannot_send() -> None:
    """A relay keeps the rows that it can't send, and takes them again before relays that could send them."""

    async def keep(self: Any, rows: Any) -> None:
        pass

    replace(turnstile.relay.wake_ups_and_dead_letters.RelaySends, "_give_back", lambda _: keep)
    replace(RelayQueues, "failed", lambda _: lambda self, line, now, chance: None)
    # Its occasion is a fleet in which only the relay's own process may send.
    original: Any = vars(turnstile.worker.worker_process)["Relay"]
    replace(
        turnstile.worker.worker_process, "Relay", lambda _: lambda database, _, settings, evidence: original(
            database, _Refused(), settings.model_copy(update={"relay_tick_seconds": 0.02}), evidence
        )
    )  # fmt: skip


@planted("I15", "worker-sigkill")
def takeover_never_allowed() -> None:
    """The guard against takeovers of living workers never permits one: lost turns stay lost."""
    replace(turnstile.relay.renewal_evidence.RenewalEvidence, "judge", lambda _: lambda self, now: None)


@planted("I1", transactions=1.0, cancels=0.0)
def places_only_in_known_sessions() -> None:
    """A relay gives no place to the first turn of a session that was submitted in its caller's transaction."""
    known = ("OR NOT EXISTS (", "OR false AND NOT EXISTS (")
    alter(turnstile.relay.loop, "PLACE_SCHEDULED", known)


# A turn is lost, taken over and then tried again: many kills, and many turns that fail.
@planted("I7", "worker-sigkill", seconds=20.0, clients=14, pause_seconds=0.05, bound_seconds=30.0)
def crashes_never_cleared() -> None:
    """The crashes of a turn are never reset, however many of its runs ended normally."""
    alter(
        turnstile.statements.settle,
        "SETTLE",
        ("CASE WHEN v.final_outcome IN ('retried', 'snoozed', 'joined') THEN 0 ELSE t.crashes END", "t.crashes"),
    )


@planted("LOGS")
def refused_statement_ends_the_process() -> None:
    """A statement that Postgres refuses ends the relay's process."""

    @instead_of(turnstile.relay.loop, "alone")
    async def alone(original: Any, step: str, work: Awaitable[Any]) -> Any:
        if step == "wake_joined":
            # Its occasion: a row that a statement of a round is refused for.
            raise psycopg.errors.CheckViolation("a row that was restored from elsewhere")
        return await work
