"""Scale-in protection: while turns are in work, asks ECS not to end this task for a scale-in or a deployment.

Without it nothing is lost, because a stopped worker hands its turns back free of charge; but the model's output until then is
paid for twice. So protection is best effort, and no failure of the ECS agent disturbs the worker.

Protection is given back after a while without work, not at once, so that single messages do not toggle it. Under work without a
pause it is not renewed: it also blocks deployments, and on a fleet that is never idle no deployment would ever finish. It runs
out, and leaves an open window in which ECS may stop the task; the task then drains as usual.
"""

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from turnstile.backends.ecs_agent import EcsAgentError, set_protection
from turnstile.telemetry.own_log import log
from turnstile.worker.in_own_thread import in_own_thread


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectionTerms:
    """When to ask ECS for protection, and when to give it back."""

    look_seconds: float = 1.0
    protected_seconds: float = 900.0
    """At least the queue's timeout for a turn. ECS ends the protection after this time, rounded up to minutes."""
    open_seconds: float = 90.0
    """The pause before the next protection. ECS checks its services more often than that."""
    idle_seconds: float = 30.0
    """Protection is given back after this long without work."""
    retry_seconds: float = 30.0


class Protection:
    """The state of protection, as far as it is known. Times are monotonic seconds."""

    def __init__(self, terms: ProtectionTerms) -> None:
        self._terms = terms
        self._ends_at: float | None = None
        self._worked_at = -math.inf
        self._not_before = -math.inf
        self._fails = False

    def next_call(self, *, busy: bool, now: float) -> bool | None:
        """The call to make now: True asks for protection, False gives it back, None means no call."""
        if busy:
            self._worked_at = now
        if self._ends_at is not None and now >= self._ends_at:
            self._ends_at, self._not_before = None, now + self._terms.open_seconds
        if now < self._not_before:
            return None
        if self._ends_at is None:
            return True if busy else None
        return False if now - self._worked_at >= self._terms.idle_seconds else None

    def succeeded(self, *, protected: bool, now: float) -> None:
        self._ends_at = now + self._terms.protected_seconds if protected else None
        self._fails = False

    def failed(self, now: float) -> bool:
        """Notes that the agent refused the call or did not respond. Returns whether it is the first failure in a row."""
        is_first, self._fails = not self._fails, True
        self._not_before = now + self._terms.retry_seconds
        return is_first


async def protect_while_busy(
    agent_uri: str, is_busy: Callable[[], bool], terms: ProtectionTerms, stopping: asyncio.Event
) -> None:
    """Keeps protection up to date until `stopping`: a draining worker is being stopped already. Raises nothing."""
    protection = Protection(terms)
    while not stopping.is_set():
        wanted = protection.next_call(busy=is_busy(), now=time.monotonic())
        if wanted is not None:
            await _call(agent_uri, wanted, protection, terms)
        with suppress(TimeoutError):
            async with asyncio.timeout(terms.look_seconds):
                await stopping.wait()


async def _call(agent_uri: str, wanted: bool, protection: Protection, terms: ProtectionTerms) -> None:
    minutes = math.ceil(terms.protected_seconds / 60)
    try:
        await in_own_thread(set_protection, agent_uri, enabled=wanted, minutes=minutes)
    except EcsAgentError as error:
        if protection.failed(time.monotonic()):
            log.warning("protection.refused", protect=wanted, error=str(error))
    except Exception:
        # A bug of ours, or an invalid address. Protection is best effort, so this must not end the worker.
        protection.failed(time.monotonic())
        log.exception("protection.failed", protect=wanted)
    else:
        protection.succeeded(protected=wanted, now=time.monotonic())
        log.info("protection.changed", protected=wanted)
