"""Requests erasures, goes on with them, and looks for what is left anywhere."""

from typing import Any, LiteralString

import redis.asyncio

from turnstile.backends.postgres.database import Database
from turnstile.erasure.eraser import Eraser
from turnstile.erasure.request import Erasure, read_erasure, request_erasure
from turnstile.memory.history import history_key
from turnstile.memory.item_cache import SessionKeys

TABLES: LiteralString = """
SELECT table_name FROM information_schema.tables WHERE table_schema = 'turnstile' AND table_type = 'BASE TABLE' ORDER BY 1
"""
RECORDS = {"erasures", "audit", "turnstile_version", "submissions", "chosen_ids"}
"""Tables that may name a session after its erasure. None of them has content."""


async def request(database: Database, session_id: str | None = "s", tenant_id: str = "t") -> Erasure:
    requested = await request_erasure(database, tenant_id, session_id, "somebody")
    assert requested is not None
    return requested[0]


async def make_due(database: Database) -> None:
    """No erasure waits, and turns that have ended did so some seconds ago."""
    await database.fetch("UPDATE erasures SET due_at = now() - interval '1 s' WHERE finished_at IS NULL", {})
    await database.fetch(
        "UPDATE turns SET finished_at = finished_at - interval '6 s' WHERE finished_at > now() - interval '6 s'", {}
    )


async def finish(database: Database, eraser: Eraser, erasure: Erasure) -> Erasure:
    """Goes on until the erasure has ended."""
    for _ in range(200):
        if (found := await read_erasure(database, erasure.id)) is not None and found.finished_at is not None:
            return found
        await make_due(database)
        await eraser.step()
    raise AssertionError(f"the erasure does not end: {found}")


async def tables_with(database: Database, text: str, *, but: set[str] = RECORDS) -> list[str]:
    """The tables that have the text in any column of any row."""
    found = []
    for row in await database.fetch(TABLES, {}):
        name = row["table_name"]
        statement: Any = f"SELECT count(*) AS many FROM {name} r WHERE to_json(r)::text LIKE %(text)s"
        [counted] = await database.fetch(statement, {"text": f"%{text}%"})
        if counted["many"] and name not in but:
            found.append(name)
    return found


async def keys_with(keys: redis.asyncio.Redis, text: str) -> list[str]:
    """The Redis keys that have the text in their name or their value."""
    found = []
    async for name in keys.scan_iter():
        match await keys.type(name):
            case "list":
                value: object = await keys.lrange(name, 0, -1)
            case "hash":
                value = await keys.hgetall(name)
            case "stream":
                value = await keys.xrange(name)
            case _:
                value = await keys.get(name)
        if text in name or text in str(value):
            found.append(name)
    return sorted(found)


async def plant_keys(
    keys: redis.asyncio.Redis, prefix: str, text: str, session_id: str = "s", tenant_id: str = "t"
) -> None:
    """What a session may have in Redis, with the text in each."""
    await keys.lpush(history_key(prefix, tenant_id, session_id), text)
    for name in SessionKeys(prefix, tenant_id, session_id, 1).keys:
        await keys.hset(name, "field", text)
