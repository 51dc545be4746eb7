"""Goes on with erasures, one step a call: the keys in Redis first, then the rows, so that no row is gone whose keys are left.

Every step may be repeated, and several processes may work on the same erasure. It ends in one transaction with its audit event.
"""

from typing import LiteralString, assert_never
from uuid import UUID

from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import record
from turnstile.backends.postgres.database import Database
from turnstile.erasure.keys import SessionKeysInRedis
from turnstile.erasure.request import Erasure, begin
from turnstile.erasure.rows import (
    END,
    END_PART,
    END_SESSION,
    ERASE_ARCHIVED,
    ERASE_BESIDE_SESSIONS,
    ERASE_MEMORY,
    ERASE_TURNS,
    FIND,
    FIND_ARCHIVED,
    FIND_SESSIONS,
    PUT_BACK,
    TAKE,
)
from turnstile.statements.cancel import LOCK_NAMED_SESSION
from turnstile.statements.session_head import wake_head

WAIT_SECONDS = 1.0
"""Until the next look at a session whose turns have not ended yet, or at an erasure whose parts have not."""


class Eraser:
    """Takes the erasure that has waited longest, and does what can be done of it."""

    def __init__(self, database: Database, keys: SessionKeysInRedis) -> None:
        self._database = database
        self._keys = keys

    async def step(self, only: UUID | None = None) -> bool:
        """One step of one erasure, of this one and its parts if `only` is given. False if none is due.

        Raises RedisAwayError or DatabaseUnavailableError; the erasure is due again in some seconds.
        """
        rows = await self._database.fetch(TAKE, {"only": only})
        if not rows:
            return False
        erasure = Erasure.of(rows[0])
        if erasure.session_id is None:
            waits = await self._erase_tenant(erasure)
        else:
            waits = await self._erase_session(erasure, erasure.session_id)
        await self._database.fetch(PUT_BACK, {"id": erasure.id, "after": WAIT_SECONDS if waits else 0.0})
        return True

    async def _erase_tenant(self, erasure: Erasure) -> bool:
        [row] = await self._database.fetch(FIND_SESSIONS, erasure.terms)
        if row["found"]:
            return False
        for statement in ERASE_BESIDE_SESSIONS:
            await self._database.fetch(statement, erasure.terms)
        return await self._end(erasure)

    async def _erase_session(self, erasure: Erasure, session_id: str) -> bool:
        """True if something has to end first."""
        if erasure.up_to_seq is None:
            await self._begin(erasure, session_id)
            return False
        found = await self._database.fetch(FIND, erasure.terms)
        if ids := [row["id"] for row in found if row["may_go"]]:
            await self._erase(erasure, session_id, ids, ERASE_TURNS)
            return False
        if found:
            return True
        if ids := [row["id"] for row in await self._database.fetch(FIND_ARCHIVED, erasure.terms)]:
            await self._erase(erasure, session_id, ids, ERASE_ARCHIVED)
            return False
        return await self._end(erasure)

    async def _begin(self, erasure: Erasure, session_id: str) -> None:
        async with self._database.connection() as connection, connection.transaction():
            await connection.execute(LOCK_NAMED_SESSION, erasure.terms)
            await begin(connection, erasure, session_id)

    async def _erase(self, erasure: Erasure, session_id: str, ids: list[UUID], statement: LiteralString) -> None:
        whose = (erasure.tenant_id, session_id)
        await self._keys.delete([*self._keys.of_turns(*whose, ids), *self._keys.of_session(*whose)])
        await self._database.fetch(statement, {**erasure.terms, "ids": ids})

    async def _end(self, erasure: Erasure) -> bool:
        """True if parts of it have to end first, or if it was asked for again meanwhile, and covers more."""
        if erasure.session_id is not None:
            await self._keys.delete(self._keys.of_session(erasure.tenant_id, erasure.session_id))
        async with self._database.connection() as connection, connection.transaction():
            if erasure.session_id is not None:
                await connection.execute(LOCK_NAMED_SESSION, erasure.terms)
                await connection.execute(ERASE_MEMORY, erasure.terms)
            end = END if erasure.part_of is None else END_PART
            ended = await (await connection.execute(end, erasure.terms)).fetchone()
            if ended is None:
                return True
            if erasure.part_of is None:
                await record(connection, _event(erasure, int(ended["turns"])))
            if erasure.session_id is not None:
                await connection.execute(END_SESSION, erasure.terms)
                # A turn that was submitted meanwhile waits for it. The relay sends the wake-up.
                await wake_head(connection, erasure.tenant_id, erasure.session_id)
        return False


def _event(erasure: Erasure, turns: int) -> AuditEvent:
    match erasure.session_id:
        case None:
            kind, subject = AuditKind.TENANT_ERASED, f"tenant {erasure.tenant_id}"
        case str(session_id):
            kind, subject = AuditKind.SESSION_ERASED, f"session {session_id}"
        case never:
            assert_never(never)
    return AuditEvent(
        kind=kind, actor=erasure.requested_by, subject=subject, tenant_id=erasure.tenant_id, counts={"turns": turns}
    )
