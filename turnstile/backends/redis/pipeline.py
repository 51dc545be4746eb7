"""Commands for one Redis that are sent together: redis-py's client with a pipeline of our own.

redis-py's does for each command what only few need (fieldsets to prepare, WATCH, metrics): half of what a flush of ten scripts
costs. Here a batch is one write and its answers in their order, on one of the client's connections. It is the same `Batch` that
a cluster carries out, so whoever fills it knows of neither.
"""

from collections.abc import Sequence
from typing import Any

import redis.asyncio
from redis.exceptions import ResponseError

from turnstile.backends.redis.batch import Batch, Command, settle
from turnstile.backends.redis.pools import pack, read_answers


class PipeliningRedis(redis.asyncio.Redis):
    """redis-py's client, but for its pipeline."""

    def pipeline(self, transaction: bool = False, shard_hint: str | None = None) -> Batch:  # type: ignore[override]
        """A batch, without MULTI: each of its commands is carried out or fails by itself."""
        if transaction or shard_hint:
            raise ValueError("these batches are no transactions")
        return Batch(self)

    async def run(self, commands: Sequence[Command], *, raise_on_error: bool = True) -> list[Any]:
        """The answers in the order of the commands; a refusal stands where the answer would.

        Raises what redis-py raises of a server that is away. Some of the commands may have been carried out then.
        """
        if not commands:
            return []
        packed = [pack(*command) for command in commands]
        pool: Any = self.connection_pool
        connection = await pool.get_connection()
        try:
            # All of it is read before any of it is looked at: what is left behind would be taken for the next batch's answers.
            # A connection whose sending or reading breaks off is closed by redis-py, whatever broke it off.
            await connection.send_packed_command(packed)
            answers = await read_answers(connection, len(commands))
        finally:
            await pool.release(connection)
        readings = {name: self.response_callbacks.get(name) for name in {command[0] for command in commands}}
        understood = [
            answer if (reading := readings[name]) is None or isinstance(answer, ResponseError) else reading(answer)
            for (name, *_), answer in zip(commands, answers, strict=True)
        ]
        return settle(understood, raise_on_error)
