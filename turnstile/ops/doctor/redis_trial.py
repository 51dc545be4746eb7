"""Takes locks as a worker does: a Redis that answers a PING may refuse each write, or answer later than workers wait."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from turnstile.backends.redis.connect import connect
from turnstile.backends.redis.operator_client import operator_client
from turnstile.backends.redis.redis_client import OUTAGES, Command, NodeAwayError, raise_first, script, tell_refusal
from turnstile.config.settings import Settings
from turnstile.worker.session_lock import ACQUIRE, name_lock

TENANT = "doctor"
LOCKS = 16
"""In a cluster each lock is on one node: this many reach nearly every node of a small cluster."""
MILLISECONDS = 1000
"""The locks expire by themselves."""
TRIES = 2
"""A worker tries again, too, so one late response is not a fault."""


async def try_redis(url: str, settings: Settings) -> tuple[str, str] | None:
    """The doctor's code for a Redis on which workers can't lock, with the reason; None if they can.

    Raises RedisUnreachableError if it, or a node of it, does not respond at all.
    """
    locks = [name_lock(settings, TENANT, str(uuid4()), "doctor") for _ in range(LOCKS)]
    commands = [script(ACQUIRE, (one.key, one.waiting_key), one.token, MILLISECONDS) for one in locks]
    late = ""
    for _ in range(TRIES):
        try:
            answers = await _run_as_a_worker(url, settings.redis_timeout_seconds, commands)
        except OUTAGES as error:
            late = f"{type(error).__name__}: {error}"
            continue
        refusals = [one for one in answers if isinstance(one, Exception) and not isinstance(one, NodeAwayError)]
        if refusals:
            return "redis-refuses", tell_refusal(refusals[0]).partition("\n")[0]
        async with operator_client(url):
            raise_first(answers)
        return None
    async with operator_client(url) as redis:
        await redis.ping()
    return "redis-slow", f"{late}, in {TRIES} tries"


async def _run_as_a_worker(url: str, timeout_seconds: float, commands: Sequence[Command]) -> list[Any]:
    client = connect(url, timeout_seconds)
    try:
        return await client.run(commands)
    finally:
        await client.aclose()
