"""Open turns are counted with the scheduled ones, without the ended ones, and no further than asked."""

from tests.statements.calls import SUCCESS
from tests.support.claims import claimed, settle_one, submit_turns
from tests.support.waiting_turns import make_scheduled
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.queries.open_turns import count_of_sessions, count_of_tenants


async def test_waiting_running_and_scheduled_turns_are_open_and_ended_ones_are_not(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one", "two", "three", "four")
    await submit_turns(database, settings, "five", session_id="other")
    await settle_one(database, settings, await claimed(database, settings), SUCCESS)
    await claimed(database, settings)
    await make_scheduled(database, settings)

    assert await count_of_sessions(database, 100, [("t", "other"), ("t", "s"), ("t", "none"), ("u", "s")]) == [
        1,
        4,
        0,
        0,
    ]
    assert await count_of_tenants(database, 100, ["u", "t"]) == [0, 5]


async def test_no_more_are_counted_than_asked(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, *"abcdef")

    assert await count_of_tenants(database, 2, ["t"]) == [2]
    assert await count_of_sessions(database, 2, [("t", "s")]) == [2]
