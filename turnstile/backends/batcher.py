"""Coalescing: calls that arrive while a batch runs form the next batch.

There is no timer: an idle system adds no delay, and a busy one forms batches by itself (like a database's group commit).
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from turnstile.backends.lines import Lines
from turnstile.errors import TurnstileError

Item = TypeVar("Item")
Result = TypeVar("Result")

_Waiting = tuple[Item, asyncio.Future[Result]]


class Batcher(Generic[Item, Result]):
    """Combines calls for one item each into calls of `flush`, which takes many items.

    `flush` gets 1 to `limit` items and returns as many results, in the same order. If it raises an error other than
    TurnstileError (an outage), each item is retried alone, so that one bad item fails alone: `flush` must be safe to
    repeat. Up to `lanes` flushes run at a time. With `patience_seconds`, a flush starts while others run only with a
    full batch, or if all of them started that long ago: for calls that cost the same for one item as for many. Without
    `line_of`, the items are served in the order of the calls. With it, the lines that it names take turns
    (`backends.lines`).
    """

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        limit: int,
        lanes: int = 1,
        patience_seconds: float = 0.0,
        line_of: Callable[[Item], str] | None = None,
    ) -> None:
        self._flush = flush
        self._limit = limit
        self._lanes = lanes
        self._patience_seconds = patience_seconds
        self._waiting: deque[_Waiting[Item, Result]] | Lines[_Waiting[Item, Result]] = deque()
        if line_of is not None:
            self._waiting = Lines(lambda waiting: line_of(waiting[0]))
        # asyncio keeps only weak references to tasks: without this set a running flush could be garbage-collected.
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy_lanes = 0
        self._starting = 0
        """Busy lanes that have not taken a batch yet."""
        self._started_at: dict[object, float] = {}
        """When the flush under way in each lane started."""

    def __call__(self, item: Item) -> "asyncio.Future[Result]":
        """The result for `item`. Cancelling the future does not take the item out of its batch: its effect still happens."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._begin_lane()
        return future

    def _begin_lane(self) -> None:
        if self._wants_lane():
            self._busy_lanes += 1
            self._starting += 1
            # An empty context: the log fields of the first caller are wrong for the others.
            task = asyncio.create_task(self._drain(), context=contextvars.Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _wants_lane(self) -> bool:
        return self._busy_lanes < self._lanes and self._is_due(len(self._waiting) - self._limit * self._starting)

    def _is_due(self, waiting: int) -> bool:
        """Whether a flush of this many items may start now, in addition to those under way."""
        if not self._patience_seconds:
            return waiting > 0
        # There is no timer: fewer items wait for the next call, or for the end of a flush that has just started. They do not wait
        # for one that takes long: its server may hang.
        recent = asyncio.get_running_loop().time() - self._patience_seconds
        alone = not self._starting and all(started_at < recent for started_at in self._started_at.values())
        return waiting >= self._limit or (waiting > 0 and alone)

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        lane = object()
        try:
            try:
                # All calls of this event loop iteration join the first batch.
                await asyncio.sleep(0)
            finally:
                self._starting -= 1
            while self._is_due(len(self._waiting)):
                self._started_at[lane] = loop.time()
                size = min(len(self._waiting), self._limit)
                batch = [self._waiting.popleft() for _ in range(size)]
                try:
                    await self._serve(batch)
                except BaseException:
                    # No call may wait for a batch that has ended.
                    for _, future in batch:
                        future.cancel()
                    raise
                del self._started_at[lane]
        except (asyncio.CancelledError, SystemExit, KeyboardInterrupt):
            # Other items may wait for this lane, and a worker's event loop goes on after an exit.
            loop.call_soon(self._begin_lane)
            raise
        finally:
            # Not in a done callback: an item that arrives before it would find the lane busy and would never be served.
            self._busy_lanes -= 1
            self._started_at.pop(lane, None)

    async def _serve(self, batch: list[_Waiting[Item, Result]]) -> None:
        try:
            results = await self._flush([item for item, _ in batch])
            if len(results) != len(batch):
                raise AssertionError(f"{len(results)} results for {len(batch)} items")
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, TurnstileError):
                for one in batch:
                    await self._serve([one])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
