"""Looks for a text in all that a database has stored, and shows all that a Redis has."""

from typing import LiteralString, cast

import redis.asyncio

from turnstile.backends.postgres.database import Database

COLUMNS: LiteralString = """
SELECT table_name, column_name FROM information_schema.columns
 WHERE table_schema = 'turnstile' ORDER BY table_name, ordinal_position
"""


async def columns_with(database: Database, text: str) -> list[str]:
    """The columns of all tables that have the text, in any row: as text, or as the bytes of a bytea."""
    found = []
    for row in await database.fetch(COLUMNS, {}):
        table, column = row["table_name"], row["column_name"]
        statement = cast(
            "LiteralString",
            f"SELECT 1 FROM turnstile.{table} r WHERE strpos(r.{column}::text, %(text)s) > 0"
            f" OR strpos(r.{column}::text, encode(convert_to(%(text)s, 'UTF8'), 'hex')) > 0 LIMIT 1",
        )
        if await database.fetch(statement, {"text": text}):
            found.append(f"{table}.{column}")
    return found


async def everything_in(keys: redis.asyncio.Redis, prefix: str) -> str:
    """All that the test's keys have."""
    found = []
    async for key in keys.scan_iter(f"{prefix}*"):
        match await keys.type(key):
            case "list":
                found += [key, *await keys.lrange(key, 0, -1)]  # type: ignore[misc]
            case "hash":
                found += [key, str(await keys.hgetall(key))]  # type: ignore[misc]
            case "stream":
                found += [key, str(await keys.xrange(key))]
            case _:
                found += [key, str(await keys.get(key))]
    return "\n".join(found)
