"""Conversations at rest for a hundred days, and others in the archive for years."""

from tests.archive.archiving import age, archive, end_turn, in_archive, in_table
from tests.runbooks.reader import Reader
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings


async def test_the_page(reader: Reader, database: Database, settings: Settings) -> None:
    old = await end_turn(database, settings, "long-ago", tenant_id="acme")
    await age(database)
    await archive(database)
    turns = [await end_turn(database, settings, "chat-17", tenant_id="acme") for _ in range(2)]
    await age(database)

    await reader.up_to("turnstile archive --older-than 30d --dry-run")
    assert (await in_table(database), await in_archive(database)) == (turns, [old])
    await reader.up_to("turnstile archive --older-than 30d")
    assert (await in_table(database), await in_archive(database)) == ([], sorted([old, *turns]))
    assert "SUCCEEDED" in (await reader.up_to("turnstile status TURN", TURN=turns[0], TENANT="acme")).out

    shown = await reader.up_to('-- in psql "$DATABASE_URL": a conversation')
    assert all(str(turn) in shown.out for turn in turns)
    await reader.up_to('-- in psql "$OWNER_URL", since no process may delete these')
    assert await in_archive(database) == [old]
