"""Shutdown in two stages (G16): stop receiving and let turns run; then hand back what is left, free of charge.

First SIGTERM or Ctrl-C: no more receives, no next turns; what runs may run for the grace period. Second: the grace is
over now. When it is over, handlers are stopped and their turns go back to PENDING, due at once, the attempt refunded,
all within two seconds, so that a deploy costs no turn an attempt and nobody waits for a lease to run out.
"""

import asyncio
import signal
from typing import Protocol

import structlog

from turnstile.worker.processor import Processor

HAND_BACK_SECONDS = 1.6
LAST_WORDS_SECONDS = 0.2

log = structlog.get_logger("turnstile.shutdown")


class InHand(Protocol):
    """What is being worked on, by a consumer or in an invocation of a function."""

    @property
    def busy(self) -> int:
        """Messages being worked on."""
        ...

    async def finished(self) -> None:
        """Returns when nothing is being worked on."""
        ...

    def abandon(self) -> None:
        """Cancels what is still being worked on."""
        ...


class Shutdown:
    """The stages, as events that others wait for."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        """No more turns are begun."""
        self.grace_over = asyncio.Event()
        """What runs is handed back."""
        self.given_up = asyncio.Event()
        """The database is not waited for any longer."""

    def install(self) -> None:
        """Listens for SIGTERM and SIGINT on the running loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.signal)

    def signal(self) -> None:
        """One more request to stop."""
        if self.stopping.is_set():
            self.grace_over.set()
        self.stopping.set()


async def drain(
    shutdown: Shutdown, in_hand: InHand, polling: asyncio.Task[None], processor: Processor, grace_seconds: float
) -> None:
    """The steps, in order, once `stopping` is set. Takes the grace and two seconds at most."""
    log.info("shutdown.draining", busy=in_hand.busy, grace_seconds=grace_seconds)
    done = asyncio.create_task(_all_done(in_hand, polling))
    over = asyncio.create_task(shutdown.grace_over.wait())
    await asyncio.wait({done, over}, timeout=grace_seconds, return_when=asyncio.FIRST_COMPLETED)
    over.cancel()
    if not done.done():
        log.info("shutdown.handing_back", busy=in_hand.busy)
        # A poll that is still under way is left behind; what it may bring becomes visible again by itself.
        polling.cancel()
        processor.hand_back()
        finished = asyncio.create_task(in_hand.finished())
        await asyncio.wait({finished}, timeout=HAND_BACK_SECONDS)
        shutdown.given_up.set()
        await asyncio.wait({finished}, timeout=LAST_WORDS_SECONDS)
        if in_hand.busy:
            log.warning("shutdown.left_behind", busy=in_hand.busy)
            in_hand.abandon()
    shutdown.given_up.set()
    done.cancel()


async def _all_done(in_hand: InHand, polling: asyncio.Task[None]) -> None:
    await asyncio.wait({polling})
    await in_hand.finished()
