"""`floor-own`: receive and delete with the product's own SQS client, and no work in between."""

import asyncio
from collections.abc import Sequence

from bench.programs.terms import QUEUE, SLOTS, begin
from turnstile.backends.batcher import Batcher
from turnstile.config.config_file import load
from turnstile.message_queue import BATCH, MessageQueues
from turnstile.turn.envelope import ReceivedMessage


async def main() -> None:
    settings = load()
    queues = MessageQueues(settings)
    free = asyncio.Semaphore(SLOTS // BATCH)
    tasks: set[asyncio.Task[None]] = set()

    async def delete_many(messages: Sequence[ReceivedMessage]) -> list[None]:
        await queues.delete(QUEUE, messages)
        return [None] * len(messages)

    deletes: Batcher[ReceivedMessage, None] = Batcher(delete_many, limit=BATCH, lanes=2)

    async def serve(messages: list[ReceivedMessage]) -> None:
        for number, _ in enumerate(messages):
            begin(number)
        await asyncio.gather(*map(deletes, messages))
        free.release()

    while True:
        await free.acquire()
        task = asyncio.create_task(serve(await queues.receive(QUEUE, BATCH)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    asyncio.run(main())
