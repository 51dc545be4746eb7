"""Coalescing: calls that are made while an earlier one is under way go out together, as one.

No timer: an idle system pays no delay, a busy one makes its own batches. (The group commit of databases.)
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from turnstile.errors import TurnstileError

FEWEST_BEGIN = 4
MOST_BEGIN = 8
"""Whoever begins something anew by its answer waits for the whole batch first, and all of a batch begin together; so they end
together too, in one crowd for ever. A third of such callers shares a batch, within these bounds: the crowd comes apart."""

CROWD = 100
REST_SECONDS = 0.005
"""After so many, without a rest of so long between two batches, the line is no crowd but a backlog, and is served by whole
batches, which cost less."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Turns `flush`, which serves many items at once, into a call for one.

    `flush` gets 1 to `limit` items and returns as many results, in their order. When it raises anything but an outage
    (TurnstileError), its items are tried again one by one, so that one bad item fails alone; it must bear that.
    Up to `lanes` flushes run at a time. Where each has its price, a call had better wait for company: beside the flushes that
    are under way another begins only for a full batch, or when the last of them began `patience_seconds` ago.
    `begins` tells the answers by which a caller begins something anew. Where the last batches had such answers, the next is a
    `portion` of those who wait, if they are no more than a crowd; else all of them, up to the limit, for a batch costs nearly
    the same for many as for few.
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
        self._begun_share = 0.0
        """Which part of the answers began something: half of it is the last batch's, half what was so before."""
        self._in_a_row = 0
        self._rested_from = 0.0
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
        loop = asyncio.get_running_loop()
        try:
            try:
                # Lets every caller that is ready in this turn of the loop join the first batch.
                await asyncio.sleep(0)
            finally:
                self._beginning -= 1
            if loop.time() - self._rested_from > REST_SECONDS:
                self._in_a_row = 0
            while self._waiting:
                self._begun_at = loop.time()
                is_crowd = self._in_a_row < CROWD
                size = portion(len(self._waiting), self._limit, self._begun_share if is_crowd else 0.0)
                begun = await self._serve([self._waiting.popleft() for _ in range(size)])
                self._in_a_row += size
                if is_crowd and begun:
                    # Whoever was told begins first, which takes two steps of the loop; then the next batch is made up and sent.
                    for _ in range(2):
                        await asyncio.sleep(0)
        finally:
            # In the same step of the loop as the last look at the waiting line, not in a done callback: an item that
            # came in between would find the lane busy and nobody to serve it.
            self._busy_lanes -= 1
            self._rested_from = loop.time()

    async def _serve(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> int:
        """How many of them begin something by their answers."""
        try:
            results = await self._flush([item for item, _ in batch])
            if len(results) != len(batch):
                raise AssertionError(f"{len(results)} results for {len(batch)} items")
            begun = sum(map(self._begins, results))
            self._begun_share = (self._begun_share + begun / len(batch)) / 2
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, TurnstileError):
                begun = 0
                for one in batch:
                    begun += await self._serve([one])
                return begun
            # Nobody has begun anything. In an outage each batch may take as long as a server is waited for: the fewer the better.
            self._begun_share = 0.0
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return 0
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
        return begun


def portion(waiting: int, limit: int, begun_share: float) -> int:
    """How many of those who wait share the next batch, if `begun_share` of them will begin something anew by its answer."""
    most = min(waiting, limit)
    if most * begun_share <= FEWEST_BEGIN:
        # Halved with each batch, the share of what began long ago comes to a number that nothing can be divided by.
        return most
    beginners = min(max(waiting * begun_share / 3, FEWEST_BEGIN), MOST_BEGIN)
    return min(most, round(beginners / begun_share))
