"""When a key was last used, to a minute."""

from datetime import datetime
from typing import Any

from tests.support.probes import until
from tests.support.stored_keys import id_of, store_key
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.credentials import last_use
from turnstile.producer.credentials.last_use import EVERY_SECONDS, LastUse


async def used_at(database: Database, key_id: str) -> datetime | None:
    [row] = await database.fetch("SELECT last_used_at FROM api_keys WHERE key_id = %(id)s", {"id": key_id})
    at: datetime | None = row["last_used_at"]
    return at


async def test_the_use_of_a_key_is_written_once_a_minute(database: Database) -> None:
    key_id, other = [id_of(await store_key(database)) for _ in range(2)]
    now = [100.0]
    noting = LastUse(database, lambda: now[0])

    noting.note(key_id)
    await until(lambda: used_at(database, key_id))
    assert await used_at(database, other) is None
    await database.fetch("UPDATE api_keys SET last_used_at = NULL", {})
    now[0] += EVERY_SECONDS - 0.01
    noting.note(key_id)
    noting.note(other)
    await until(lambda: used_at(database, other))
    assert await used_at(database, key_id) is None
    now[0] += 0.01
    noting.note(key_id)
    await until(lambda: used_at(database, key_id))


async def test_what_another_process_has_just_written_is_left_alone(database: Database) -> None:
    key_id, other = [id_of(await store_key(database)) for _ in range(2)]
    LastUse(database).note(key_id)
    before = await until(lambda: used_at(database, key_id))

    another = LastUse(database)
    another.note(key_id)
    another.note(other)
    await until(lambda: used_at(database, other))

    assert await used_at(database, key_id) == before


async def test_a_write_that_fails_fails_nobody(database: Database, monkeypatch: Any) -> None:
    key_id = id_of(await store_key(database))
    now = [100.0]
    failed: list[object] = []
    really = last_use.note_use

    async def fail(*given: object) -> None:
        failed.append(given)
        raise DatabaseUnavailableError("away")

    monkeypatch.setattr(last_use, "note_use", fail)
    noting = LastUse(database, lambda: now[0])
    noting.note(key_id)
    await until(lambda: failed)
    monkeypatch.setattr(last_use, "note_use", really)
    now[0] += EVERY_SECONDS
    noting.note(key_id)
    await until(lambda: used_at(database, key_id))
