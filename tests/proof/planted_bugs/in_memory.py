"""Bugs in what a session remembers: its working memory and its history."""

from collections.abc import Callable, Sequence
from dataclasses import replace as with_fields
from typing import Any

import turnstile.memory.durable_items
import turnstile.memory.history
import turnstile.memory.history_cache
from tests.proof.planted_bugs.patching import alter, replace
from turnstile.memory.item import Item
from turnstile.memory.item_cache import Found, ItemCache
from turnstile.memory.working import WorkingMemory


def fact_written_without_fence() -> None:
    """A stalled worker writes over what its successor has kept."""
    alter(
        turnstile.memory.durable_items,
        "WRITE_ITEMS",
        (
            f"WHERE t.id = %(turn)s AND t.fence = %(fence)s AND {turnstile.memory.durable_items.IS_RUNNING} ",
            "WHERE t.id = %(turn)s ",
        ),
    )


def facts_not_read_again_after_a_flush() -> None:
    """What Redis answers is believed, whether it has all durable items or has just forgotten them."""
    replace(WorkingMemory, "_is_whole", lambda original: lambda self, found: found is not None)


def expected_version_ignored() -> None:
    """A compare-and-set writes over whatever is there."""
    alter(
        turnstile.memory.durable_items,
        "WRITE_ITEMS",
        ("OR (SELECT w.expected IS NULL OR w.expected = ", "OR (SELECT true OR 0 = "),
    )


def items_kept_in_the_process() -> None:
    """What a worker has read once it does not ask Redis for again."""
    known: dict[tuple[str, str], Item] = {}

    def remembering(original: Callable[..., Any]) -> Callable[..., Any]:
        async def read(self: ItemCache, session: Any, places: Sequence[Any]) -> Found | None:
            kept = [known[session.stem, place.field] for place in places if (session.stem, place.field) in known]
            if len(kept) == len(places) and not any(place.kind.durable for place in places):
                return Found(0, kept)
            found: Found | None = await original(self, session, places)
            for item in found.items if found else ():
                known[session.stem, f"{item.kind}:{item.key}"] = item
            return found

        return read

    replace(ItemCache, "read", remembering)


def history_of_any_version() -> None:
    """Whatever history Redis has is shown, also one that ends before the last turn."""
    alter(turnstile.memory.history_cache, "LOAD", ("if claim == ARGV[2] then", "if claim then"))


def history_without_the_inputs() -> None:
    """The history goes on by the replies, and what they answer is left out."""

    def replies_only(original: Callable[..., Any]) -> Callable[..., Any]:
        async def append(self: Any, turn: Any, reply: Any) -> None:
            await original(self, with_fields(turn, messages=()), reply)

        return append

    replace(turnstile.memory.history.History, "append", replies_only)
