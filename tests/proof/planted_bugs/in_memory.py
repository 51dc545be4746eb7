"""Bugs in what a session remembers: its working memory and its history."""

from collections.abc import Sequence
from dataclasses import replace as with_fields
from typing import Any

import turnstile.memory.durable_items
import turnstile.memory.history
from tests.proof.planted_bugs.patching import alter, instead_of
from tests.proof.planted_bugs.planted_bug import planted
from turnstile.memory.item import Item
from turnstile.memory.item_cache import ItemCache
from turnstile.statements.session_head import IS_RUNNING


@planted("I19", "worker-frozen", "worker-cut-off-from-postgres", lanes=3, seconds=20.0, clients=10, memory=0.5)
def fact_written_without_fence() -> None:
    """A stalled worker overwrites durable items of its successor."""
    alter(
        turnstile.memory.durable_items,
        "WRITE_ITEMS",
        (
            f"WHERE t.id = %(turn)s AND t.fence = %(fence)s AND {IS_RUNNING} ",
            "WHERE t.id = %(turn)s ",
        ),
    )


@planted("I19", memory=0.5)
def expected_version_ignored() -> None:
    """A compare-and-set overwrites any version."""
    alter(
        turnstile.memory.durable_items,
        "WRITE_ITEMS",
        ("OR (SELECT w.expected IS NULL OR w.expected = ", "OR (SELECT true OR 0 = "),
    )


# A busy machine answers for Redis too late, and nothing is kept.
@planted("I19", memory=0.5, clients=4, seconds=12.0)
def items_kept_in_the_process() -> None:
    """A worker keeps items that it has read, and does not ask Redis for them again."""
    known: dict[tuple[str, str], Item] = {}

    @instead_of(ItemCache, "read")
    async def read(original: Any, self: ItemCache, session: Any, places: Sequence[Any]) -> list[Item]:
        kept = [known[session.stem, place.field] for place in places if (session.stem, place.field) in known]
        if len(kept) == len(places):
            return kept
        found: list[Item] = await original(self, session, places)
        for item in found:
            known[session.stem, f"{item.kind}:{item.key}"] = item
        return found


# It shows in the first turn after a settlement that did not reach Redis, if that turn looks at its history.
@planted("I5", "redis-unreachable", "worker-cut-off-from-redis", "commit-answer-lost", histories=1.0)
def history_of_any_version() -> None:
    """Any cached history is shown, also one that ends before the last turn."""
    alter(turnstile.memory.history, "LOAD", ("if claim == ARGV[2] then", "if claim then"))


@planted("I21")
def history_without_the_inputs() -> None:
    """The cached history grows by the replies only, without the inputs."""

    @instead_of(turnstile.memory.history.History, "append")
    def append(original: Any, self: Any, turn: Any, reply: Any) -> Any:
        return original(self, with_fields(turn, messages=()), reply)
