"""Shutdown in two stages: stop receiving and let turns run; then hand back the remaining turns, free of charge.

The first stop signal: the worker receives no messages and begins no turns; running turns may go on for the grace period. A second
one ends the grace period at once. After it, handlers are stopped and their turns go back to PENDING, due at once, with the
attempt refunded, within two seconds. So a deployment costs no turn an attempt, and no client waits for a lease to expire.
Only a turn that keeps being stopped ends (`worker.retry_decision`). While Postgres does not answer, nothing can be handed back:
the turns are taken over, at the price of a crash. So is a turn whose claim commits only after these two seconds. The exit code
says so in both cases (`worker.worker_process`).
"""

import asyncio
from collections.abc import Callable

from turnstile.process.stop_signals import on_stop_signal
from turnstile.telemetry.own_log import log
from turnstile.worker.turns_in_flight import TurnsInFlight

HAND_BACK_SECONDS = 1.6
LAST_WORDS_SECONDS = 0.2


class Shutdown:
    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        """When set, no more turns are begun."""
        self.grace_over = asyncio.Event()
        """When set, running turns are handed back."""
        self.given_up = asyncio.Event()
        """When set, an outage of the database is no longer waited for."""

    def install(self) -> None:
        on_stop_signal(lambda _: self.signal())

    def signal(self) -> None:
        """A request to stop; a second one ends the grace period."""
        if self.stopping.is_set():
            self.grace_over.set()
        self.stopping.set()


async def drain(
    shutdown: Shutdown,
    in_flight: TurnsInFlight,
    polling: asyncio.Task[None],
    hand_back: Callable[[], None],
    grace_seconds: float,
) -> None:
    """Runs the shutdown once `stopping` is set. Takes the grace period and two seconds at most."""
    log.info("shutdown.draining", busy=len(in_flight), grace_seconds=grace_seconds)
    done = asyncio.create_task(_all_done(in_flight, polling))
    over = asyncio.create_task(shutdown.grace_over.wait())
    await asyncio.wait({done, over}, timeout=grace_seconds, return_when=asyncio.FIRST_COMPLETED)
    over.cancel()
    if not done.done():
        log.info("shutdown.handing_back", busy=len(in_flight))
        # A poll under way is cancelled; messages that it would bring become visible again by themselves.
        polling.cancel()
        hand_back()
        finished = asyncio.create_task(in_flight.finished())
        await asyncio.wait({finished}, timeout=HAND_BACK_SECONDS)
        shutdown.given_up.set()
        await asyncio.wait({finished}, timeout=LAST_WORDS_SECONDS)
        if len(in_flight):
            log.warning("shutdown.left_behind", busy=len(in_flight))
            in_flight.abandon()
    shutdown.given_up.set()
    done.cancel()


async def _all_done(in_flight: TurnsInFlight, polling: asyncio.Task[None]) -> None:
    await asyncio.wait({polling})
    await in_flight.finished()
