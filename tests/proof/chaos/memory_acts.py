"""Turns that use their session's working memory: the result of each call goes to a file as evidence.

What a turn does is drawn from the number that its input carries, so that a second attempt does it again. Each value says who
wrote it: one that turns up where it does not belong shows by itself.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.proof.chaos.handler_evidence import leave
from tests.proof.chaos.journal import now
from turnstile import Context, Turn
from turnstile.errors import SupersededError
from turnstile.memory.item import Item, Verdict, Write

DURABLE, VANISHING = "fact", "item"
KEYS = ("city", "mood")
"""Few, so that the turns of a session meet."""
TAGS = ("odd", "old")
CONTEXT = "trip"

STEPS = (3, 7)
PAUSE_SECONDS = 0.08
LONG_PAUSES = 0.1
LONG_PAUSE_SECONDS = (0.5, 1.2)
"""Time enough to be overtaken between two calls."""

OUTCOMES = {Verdict.KEPT: "ok", Verdict.CONFLICT: "conflict", Verdict.NOT_KEPT: "not kept"}


async def remember(turn: Turn, ctx: Context, order: dict[str, Any]) -> dict[str, Any]:
    rng = random.Random(order["say"])
    acts = _Acts(turn, ctx, rng)
    steps: dict[Callable[[], Awaitable[None]], int] = {
        acts.look: 4,
        acts.look_around: 2,
        acts.put: 4,
        acts.swap: 4,
        acts.swap_outdated: 2,
        acts.drop: 1,
        acts.clear: 1,
        acts.use_context: 1,
    }
    for step in rng.choices(list(steps), list(steps.values()), k=rng.randint(*STEPS)):
        await step()
        long = rng.random() < LONG_PAUSES
        await asyncio.sleep(rng.uniform(*LONG_PAUSE_SECONDS) if long else rng.expovariate(1 / PAUSE_SECONDS))
    return {"acts": acts.many}


class _Acts:
    def __init__(self, turn: Turn, ctx: Context, rng: random.Random) -> None:
        self._turn = turn
        self._ctx = ctx
        self._memory = ctx.memory
        self._rng = rng
        self.many = 0

    async def look(self) -> None:
        await self._get(*self._place())

    async def look_around(self) -> None:
        kind = self._rng.choice((DURABLE, VANISHING))
        async with self._noted({"op": "find", "kind": kind}) as [act]:
            items = await self._memory.find(kind=kind)
            act.update({"found": {item.key: item.version for item in items}, "outcome": "ok"})

    async def put(self) -> None:
        """Writes one item, or several at once, whatever was there."""
        places = [self._place() for _ in range(self._rng.choice((1, 1, 2, 3)))]
        await self._set([self._write(kind, key) for kind, key in dict.fromkeys(places)])

    async def swap(self) -> None:
        kind, key = self._place()
        await self._set([self._write(kind, key, _version(await self._get(kind, key)))])

    async def swap_outdated(self) -> None:
        """Writes an item on the condition that it is as it was read, which it no longer is."""
        kind, key = self._place()
        expected = _version(await self._get(kind, key))
        await self._set([self._write(kind, key)])
        await self._set([self._write(kind, key, expected)])

    async def drop(self) -> None:
        kind, key = self._place()
        async with self._noted({"op": "delete", "kind": kind, "key": key}) as [act]:
            act["outcome"] = "ok" if await self._memory.delete(key, kind=kind) else "absent"

    async def clear(self) -> None:
        """Deletes all items with a tag, or ends the context and deletes what is in it."""
        tag = self._rng.choice((*TAGS, None))
        async with self._noted({"op": "clear", "label": f"context:{CONTEXT}" if tag is None else f"tag:{tag}"}) as [
            act
        ]:
            if tag is None:
                await self._memory.end_context(CONTEXT)
            else:
                await self._memory.invalidate(tag=tag)
            act["outcome"] = "ok"

    async def use_context(self) -> None:
        """Opens the context, and extends it by reading what is in it."""
        await self._memory.open_context(CONTEXT, ttl=self._rng.choice((None, 900.0)))
        await self._memory.find(context=CONTEXT)
        await self._memory.contexts()

    async def _get(self, kind: str, key: str) -> Item | None:
        async with self._noted({"op": "get", "kind": kind, "key": key}) as [act]:
            item = await self._memory.get(key, kind=kind)
            if item is not None:
                act.update({"version": item.version, "value": item.value})
            act["outcome"] = "ok"
        return item

    async def _set(self, writes: Sequence[Write]) -> None:
        acts = [
            {
                "op": "set",
                "kind": write.kind,
                "key": write.key,
                "value": write.value,
                "expected": write.expected_version,
            }
            for write in writes
        ]
        async with self._noted(*acts) as noted:
            for act, written in zip(noted, await self._memory.set_many(writes), strict=True):
                act.update({"outcome": OUTCOMES[written.verdict], "version": written.version or None})

    def _place(self) -> tuple[str, str]:
        return self._rng.choice((DURABLE, VANISHING)), self._rng.choice(KEYS)

    def _write(self, kind: str, key: str, expected: int | None = None) -> Write:
        self.many += 1
        return Write(
            key=key,
            value={"by": str(self._turn.id), "fence": self._ctx.fence, "n": self.many},
            kind=kind,
            context=CONTEXT if self._rng.random() < 0.3 else None,
            priority=self._rng.randint(1, 10),
            tags=self._rng.sample(TAGS, self._rng.randint(0, len(TAGS))),
            expected_version=expected,
        )

    @asynccontextmanager
    async def _noted(self, *acts: dict[str, Any]) -> AsyncIterator[tuple[dict[str, Any], ...]]:
        at = now()
        for act in acts:
            # Until it is answered.
            act["outcome"] = "unknown"
        try:
            yield acts
        except SupersededError:
            for act in acts:
                act["outcome"] = "superseded"
            raise
        finally:
            until = now()
            for act in acts:
                leave("memory_acts", self._known() | {"at": at, "until": until} | act)

    def _known(self) -> dict[str, Any]:
        turn = self._turn
        return {
            "turn_id": str(turn.id),
            "tenant": turn.tenant_id,
            "session": turn.session_id,
            "fence": self._ctx.fence,
        }


def _version(item: Item | None) -> int:
    return 0 if item is None else item.version
