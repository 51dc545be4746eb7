"""Counts each request against the rules of `turnstile.toml`, and refuses one that is too many.

While Redis is away each process counts by itself, so together they allow as many times the limit as there are processes. Letting
everything through would reward whoever overloads Redis; refusing everything would make an outage of Redis one of the API.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from turnstile.access.caller import Caller
from turnstile.backends.window_count import Counted, LocalCounts, Window
from turnstile.config.rate_rules import RateRule
from turnstile.config.settings import Settings
from turnstile.producer.http.log_throttle import Tally
from turnstile.producer.http.problems import Kind
from turnstile.producer.rates.rate_headers import Header, rate_headers
from turnstile.producer.sharing.fair_places import NoPlaceError
from turnstile.telemetry.metrics import RATE_LIMITED

if TYPE_CHECKING:
    from turnstile.backends.redis.window_counts import WindowCounts

NARROWEST_FIRST = ("session", "key", "tenant")


class RateLimitError(NoPlaceError):
    """429 because a rate limit is used up. Nothing was done."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the rules look at of a request."""

    caller: Caller
    session_id: str | None
    """The session that the path names. None: it names none."""
    is_submit: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    headers: Sequence[Header]
    """Headers of the response, whatever it is."""
    refused: RateLimitError | None


class RateLimits:
    """The rate limits of an API process."""

    def __init__(self, rules: Sequence[RateRule], counts: "WindowCounts") -> None:
        # So a session that floods is refused before it spends its tenant's requests.
        ordered = sorted(rules, key=lambda rule: NARROWEST_FIRST.index(rule.per))
        self._rules = [
            (rule, Window(rule.name, rule.limit, rule.seconds, rule.window == "sliding")) for rule in ordered
        ]
        self._counts = counts
        self._local = LocalCounts()
        self._refused = Tally("api.rate_limited")

    async def spend(self, asked: Asked) -> Verdict:
        """Counts the request against each rule that applies, up to the first that refuses it."""
        counted = []
        for rule, window in self._rules:
            counted_as = name_counted(rule, asked)
            if counted_as is None:
                continue
            count = await self._counts.spend(window, counted_as) or self._local.spend(
                window, counted_as, time.monotonic()
            )
            counted.append((window, count))
            if not count.allowed:
                self._refused.note(rule=rule.name, tenant_id=asked.caller.tenant_id)
                RATE_LIMITED.add(1, rule.name)
                detail = (
                    f"{rule.limit} requests in {rule.seconds} s are allowed per {rule.per} ({rule.name}); "
                    f"try again after `Retry-After` seconds"
                )
                refused = RateLimitError(Kind.RATE_LIMITED, detail, headers={"Retry-After": str(count.free_in_seconds)})
                return Verdict(rate_headers(counted), refused)
        return Verdict(rate_headers(counted), None)

    async def close(self) -> None:
        await self._counts.close()


def open_rate_limits(settings: Settings) -> RateLimits:
    """The rate limits of these settings. Their counts are in the Redis of histories and events, so that they delay no lock."""
    # Imported here: the library is of no use to an API without rules.
    from turnstile.backends.redis.window_counts import WindowCounts

    return RateLimits(
        settings.rates,
        WindowCounts(settings.memory_redis, settings.redis_timeout_seconds, f"{settings.redis_prefix}rates"),
    )


def name_counted(rule: RateRule, asked: Asked) -> Counted | None:
    """Whose requests the rule counts this one with; None if the rule does not apply."""
    if rule.calls == "submits" and not asked.is_submit:
        return None
    match rule.per:
        case "tenant":
            return (asked.caller.tenant_id,)
        case "key":
            return asked.caller.tenant_id, asked.caller.key_id
        case "session":
            return None if asked.session_id is None else (asked.caller.tenant_id, asked.session_id)
        case _:
            assert_never(rule.per)
