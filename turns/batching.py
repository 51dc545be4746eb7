"""Coalescing: calls that are made while an earlier one is under way go out together, as one.

No timer: an idle system pays no delay, a busy one makes its own batches. (The group commit of databases.)
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Generic, TypeVar

from turns.errors import TurnstileError

AT_ONCE = 10
"""Answers by which a caller begins something anew are given out so many in one step of the loop, so that the first callers have
begun before the last are told: who begins together ends together, in one crowd for ever."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Turns `flush`, which serves many items at once, into a call for one.

    `flush` gets 1 to `limit` items and returns as many results, in their order. When it raises anything but an outage
    (TurnstileError), its items are tried again one by one, so that one bad item fails alone; it must bear that.
    Up to `lanes` flushes run at a time. Where each has its price, a call had better wait for company: beside the flushes that
    are under way another begins only for a full batch, or when the last of them began `patience_seconds` ago.
    `begins` tells the answers of which only AT_ONCE are given out in one step of the loop. All others are: whoever waits for them
    is then in the next batch together, and a batch costs nearly the same for many as for few.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        limit: int,
        lanes: int = 1,
        patience_seconds: float = 0.0,
        begins: Callable[[Result], bool] = lambda _: False,
    ) -> None:
        self._flush = flush
        self._limit = limit
        self._lanes = lanes
        self._patience_seconds = patience_seconds
        self._begins = begins
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        # asyncio itself keeps only weak references: a task that nobody holds may vanish with its items.
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy_lanes = 0
        self._beginning = 0
        """Of the busy lanes those that have not taken a batch yet."""
        self._begun_at = 0.0

    def __call__(self, item: Item) -> "asyncio.Future[Result]":
        """The result for `item`. Who does not wait for it leaves the item in the batch: its effect still happens."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._wants_lane():
            self._busy_lanes += 1
            self._beginning += 1
            # In a context of its own: what the first caller has bound to his log lines is not true of the others.
            task = asyncio.create_task(self._drain(), context=contextvars.Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return future

    def _wants_lane(self) -> bool:
        if self._busy_lanes == self._lanes:
            return False
        unserved = len(self._waiting) - self._limit * self._beginning
        if not self._busy_lanes or not self._patience_seconds:
            return unserved > 0
        # Looked at when a call comes, without a timer: the last one waits for the next, or for a flush to end.
        waited = asyncio.get_running_loop().time() - self._begun_at
        return unserved >= self._limit or (unserved > 0 and not self._beginning and waited >= self._patience_seconds)

    async def _drain(self) -> None:
        try:
            try:
                # Lets every caller that is ready in this turn of the loop join the first batch.
                await asyncio.sleep(0)
            finally:
                self._beginning -= 1
            while self._waiting:
                self._begun_at = asyncio.get_running_loop().time()
                batch = [self._waiting.popleft() for _ in range(min(self._limit, len(self._waiting)))]
                await self._serve(batch)
        finally:
            # In the same step of the loop as the last look at the waiting line, not in a done callback: an item that
            # came in between would find the lane busy and nobody to serve it.
            self._busy_lanes -= 1

    async def _serve(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._flush([item for item, _ in batch])
            if len(results) != len(batch):
                raise AssertionError(f"{len(results)} results for {len(batch)} items")
            begins = list(map(self._begins, results))
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, TurnstileError):
                for one in batch:
                    await self._serve([one])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        _give_out(zip([future for _, future in batch], results, begins, strict=True))


def _give_out(answers: Iterator[tuple["asyncio.Future[Result]", Result, bool]]) -> None:
    begun = 0
    for future, result, begins in answers:
        if not future.done():
            future.set_result(result)
        begun += begins
        if begun == AT_ONCE:
            asyncio.get_running_loop().call_soon(_give_out, answers)
            return
