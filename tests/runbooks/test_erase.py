"""A session of a tenant is erased, then all the others."""

from tests.archive.archiving import end_turn, in_table
from tests.runbooks.reader import Reader
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings


async def test_the_page(reader: Reader, database: Database, settings: Settings) -> None:
    await end_turn(database, settings, "chat-17", tenant_id="acme")
    kept = await end_turn(database, settings, "chat-18", tenant_id="acme")
    reader.names |= {"TENANT": "acme", "SESSION": "chat-17"}

    ran = await reader.up_to("turnstile erase --tenant TENANT --session SESSION")
    assert (ran.out, await in_table(database)) == (
        "session chat-17 of tenant acme: 1 turn erased; nothing is left\n",
        [kept],
    )
    ran = await reader.up_to("turnstile erase --tenant TENANT --session SESSION --verify")
    assert ran.out == "session chat-17 of tenant acme: nothing is left\n"
    await reader.to_the_end()
    assert await in_table(database) == []
