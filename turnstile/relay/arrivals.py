"""Hears of turns that were submitted in their callers' own transactions: a round begins at their commit, and not at the tick.

The commit notifies (`migrations/versions/0001_initial/submit_turn.sql`). One relay of all listens, on a connection of its own: if
each listened, each notification would start a round of every worker. It holds an advisory lock, which ends with its connection.
Then another relay takes over. Until that, and if a notification gets lost, the ordinary rounds find the turns.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import LiteralString

import psycopg

from turnstile.backends.jitter import CHANCE
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.backends.postgres.outage import is_outage
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.relay.fault_isolation import alone
from turnstile.telemetry.own_log import log

LOOK_SECONDS = 15.0
"""How often a relay that does not listen looks whether one does."""
STOP_SECONDS = 1.0
"""How long a relay that listens takes to notice that it is to stop."""
GAP_SECONDS = 0.02
"""From one notification to the next that counts: a burst starts fifty rounds a second at most."""

_LOCK: LiteralString = "hashtext('turnstile.arrivals ' || current_schema())"
IS_FREE: LiteralString = f"SELECT pg_try_advisory_xact_lock({_LOCK}) AS free"
TAKE: LiteralString = f"SELECT pg_try_advisory_lock({_LOCK})"


class Arrivals:
    """`nudge` starts a round of the relay at once."""

    def __init__(self, database: Database, settings: Settings, nudge: Callable[[], None]) -> None:
        self._database = database
        self._place = settings.database
        self._nudge = nudge

    async def run(self, stopping: asyncio.Event) -> None:
        """Listens while no other relay does, until `stopping`."""
        while not stopping.is_set():
            await alone("listen", self._listen_if_nobody_does(stopping))
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS * (0.5 + CHANCE.random())):
                    await stopping.wait()

    async def _listen_if_nobody_does(self, stopping: asyncio.Event) -> None:
        [row] = await self._database.fetch(IS_FREE, {})
        if not row["free"]:
            return
        try:
            address = conninfo(self._place, "turnstile-relay")
            connection = await psycopg.AsyncConnection.connect(address, autocommit=True)
            async with connection:
                if await _takes_lock(connection):
                    await self._listen(connection, stopping)
        except psycopg.Error as error:
            if is_outage(error):
                raise DatabaseUnavailableError(str(error)) from error
            raise

    async def _listen(self, connection: psycopg.AsyncConnection, stopping: asyncio.Event) -> None:
        await connection.execute("LISTEN turnstile")
        log.info("relay.listens")
        while not stopping.is_set():
            heard = False
            async for notification in connection.notifies(timeout=STOP_SECONDS, stop_after=1):
                # Other schemas of the database may have tables of their own.
                heard = heard or notification.payload == self._place.schema
            if heard:
                self._nudge()
                await asyncio.sleep(GAP_SECONDS)


async def _takes_lock(connection: psycopg.AsyncConnection) -> bool:
    cursor = await connection.execute(TAKE)
    row = await cursor.fetchone()
    return row is not None and bool(row[0])
