"""Scale-in protection: while turns are in work, asks ECS not to end this task for a scale-in or a deployment.

Without it nothing is lost, because a stopped worker hands its turns back free of charge; but the model's output until then is
paid for twice. So protection is best effort, and no failure of the ECS agent disturbs the worker.

Protection is short and renewed: a worker that hangs is protected for minutes, not for ECS's two hours. It lasts a little longer
than the work, so that single messages do not toggle it. A stretch of protection ends even if the work never pauses: protection
also blocks deployments, and on a fleet that is never idle no deployment would ever finish. After each stretch there is an open
window in which ECS may stop the task; the task then drains as usual.
"""

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

import structlog

from turnstile.backends.backoff import ceiling
from turnstile.backends.ecs_agent import EcsAgentError, set_protection
from turnstile.worker.attempt.run_blocking import in_own_thread

log = structlog.get_logger("turnstile.protection")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The times of protection."""

    look_seconds: float = 1.0
    expires_minutes: int = 5
    renew_seconds: float = 100.0
    """Well within the expiry, so that one renewal may fail."""
    idle_seconds: float = 30.0
    """Protection is released after this long without work."""
    stretch_seconds: float = 900.0
    open_seconds: float = 90.0
    """The pause between two stretches. ECS checks its services more often than that."""
    retry_seconds: float = 5.0
    retry_cap_seconds: float = 300.0


class Wish(StrEnum):
    """The call to make to the ECS agent now."""

    NOTHING = "nothing"
    PROTECT = "protect"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of protection, as far as it is known. All times are monotonic seconds."""

    since: float | None = None
    """Since when protection may be on; None: it is off. A call without a response may have worked, so the request counts."""
    asked_at: float = -math.inf
    """The time of the last request for protection, which expires `expires_minutes` later."""
    granted_at: float = -math.inf
    worked_at: float = -math.inf
    not_before: float = -math.inf
    """No call is made before this: the pause after a failure, or the open window after a stretch."""
    failures: int = 0


def decide(standing: Standing, now: float, terms: Terms) -> Wish:
    """The next call to the agent. Pure."""
    if now < standing.not_before:
        return Wish.NOTHING
    idle_for = now - standing.worked_at
    if standing.since is None:
        return Wish.PROTECT if idle_for <= 0 else Wish.NOTHING
    if idle_for >= terms.idle_seconds or now - standing.since >= terms.stretch_seconds:
        return Wish.RELEASE
    return Wish.PROTECT if now - standing.granted_at >= terms.renew_seconds else Wish.NOTHING


def seen(standing: Standing, *, busy: bool, now: float, terms: Terms) -> Standing:
    """The state after a check whether the worker is busy."""
    if standing.since is not None and now - standing.asked_at >= terms.expires_minutes * 60:
        standing = replace(standing, since=None)
    return replace(standing, worked_at=now) if busy else standing


def told(standing: Standing, wish: Wish, now: float, terms: Terms) -> Standing:
    """The state after a successful call."""
    match wish:
        case Wish.PROTECT:
            since = now if standing.since is None else standing.since
            return replace(standing, since=since, asked_at=now, granted_at=now, failures=0)
        case Wish.RELEASE:
            stretch_is_over = now - standing.worked_at < terms.idle_seconds
            not_before = now + terms.open_seconds if stretch_is_over else -math.inf
            return Standing(worked_at=standing.worked_at, not_before=not_before)
        case Wish.NOTHING:
            return standing
        case _:
            assert_never(wish)


def refused(standing: Standing, wish: Wish, now: float, terms: Terms) -> Standing:
    """The state after a call that the agent refused, or did not respond to: the call may have worked all the same."""
    failures = standing.failures + 1
    pause = ceiling(failures, terms.retry_seconds, terms.retry_cap_seconds)
    standing = replace(standing, failures=failures, not_before=now + pause)
    if wish is Wish.PROTECT:
        since = now if standing.since is None else standing.since
        return replace(standing, since=since, asked_at=now)
    return standing


async def protect_while_busy(
    agent_uri: str, is_busy: Callable[[], bool], terms: Terms, stopping: asyncio.Event
) -> None:
    """Keeps protection up to date until `stopping`: a draining worker is being stopped already. Raises nothing."""
    standing = Standing()
    while not stopping.is_set():
        now = time.monotonic()
        standing = seen(standing, busy=is_busy(), now=now, terms=terms)
        wish = decide(standing, now, terms)
        if wish is not Wish.NOTHING:
            standing = await _tell(agent_uri, wish, standing, terms)
        with suppress(TimeoutError):
            async with asyncio.timeout(terms.look_seconds):
                await stopping.wait()


async def _tell(agent_uri: str, wish: Wish, standing: Standing, terms: Terms) -> Standing:
    enabled = wish is Wish.PROTECT
    try:
        await in_own_thread(set_protection, agent_uri, enabled=enabled, minutes=terms.expires_minutes)
    except EcsAgentError as error:
        if not standing.failures:
            log.warning("protection.refused", wish=wish.value, error=str(error))
        return refused(standing, wish, time.monotonic(), terms)
    except Exception:
        # A bug of ours, or an invalid address. Protection is best effort, so this must not end the worker.
        log.exception("protection.failed", wish=wish.value)
        return refused(standing, wish, time.monotonic(), terms)
    if standing.since is None or not enabled:
        log.info("protection.changed", protected=enabled)
    return told(standing, wish, time.monotonic(), terms)
