"""Drop: an operator gives FAILED turns up."""

from uuid import UUID

from tests.ops.dead_turns import make_failed, rows
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.dead_letters.drop_failed import drop_failed
from turnstile.ops.dead_letters.failed_turns import FailedFilter, list_failed
from turnstile.queries.attention import read_attention
from turnstile.statements.revive import DROPPED, read_generations, revive
from turnstile.turn.identifiers import start_trace


async def give_up(database: Database, *failed: UUID, generation: int = 1) -> list[UUID]:
    return await drop_failed(database, [(turn_id, generation) for turn_id in failed], dropped_by="ada@test")


async def test_a_dropped_turn_stays_failed_with_its_error_and_is_owed_no_dead_letter(
    database: Database, settings: Settings
) -> None:
    failed, other = await make_failed(database, settings, ["a", "b"])
    before = (await rows(database))[failed]

    assert await give_up(database, failed) == [failed]

    row = (await rows(database))[failed]
    assert (row["status"], row["error"], row["send_at"], row["dropped_by"]) == (
        "FAILED", before["error"], None, "ada@test",
    )  # fmt: skip
    assert row["dropped_at"] is not None
    assert (await rows(database))[other]["dropped_at"] is None
    assert await read_generations(database, [failed, other]) == {failed: (1, DROPPED), other: (1, "FAILED")}


async def test_only_a_failed_turn_of_that_generation_is_dropped_and_only_once(
    database: Database, settings: Settings
) -> None:
    (failed,) = await make_failed(database, settings, ["a"])
    (halting,) = await make_failed(database, settings, ["b"], halt=True)

    assert await give_up(database, failed, generation=2) == []
    assert await give_up(database, failed) == [failed]
    first = (await rows(database))[failed]
    assert await give_up(database, failed, halting) == []

    assert (await rows(database))[failed] == first
    assert (await rows(database))[halting]["dropped_at"] is None


async def test_lists_leave_dropped_turns_out_unless_asked(database: Database, settings: Settings) -> None:
    dropped, other = await make_failed(database, settings, ["a", "b"])
    await give_up(database, dropped)

    async def listed(wanted: FailedFilter) -> list[UUID]:
        return [turn.id for turn in await list_failed(database, wanted)]

    assert await listed(FailedFilter()) == [other]
    assert await listed(FailedFilter(dropped=True)) == [dropped]
    assert await listed(FailedFilter(turn_ids=(dropped,))) == [dropped]


async def test_no_alarm_counts_a_dropped_turn(database: Database, settings: Settings) -> None:
    failed = await make_failed(database, settings, ["a", "b"], queue="turns")
    await database.fetch("UPDATE turns SET send_at = NULL, dead_lettered_at = now()", {})
    (before,) = await read_attention(database, ["turns"], lately_seconds=300)

    await give_up(database, *failed)

    (after,) = await read_attention(database, ["turns"], lately_seconds=300)
    assert (before.failed_lately, before.letters, before.needs_operator) == (2, 2, True)
    assert (after.failed_lately, after.letters, after.needs_operator) == (0, 0, False)


async def test_a_redrive_clears_the_mark(database: Database, settings: Settings) -> None:
    (failed,) = await make_failed(database, settings, ["a"])
    await give_up(database, failed)

    trace = start_trace(1 << 64 | 1)
    revived = await revive(database, [(failed, 1)], [trace], expires_in_seconds=[60], resend_seconds=60)

    row = (await rows(database))[failed]
    assert [one.message.wake_up.turn_id for one in revived] == [failed]
    assert (row["status"], row["dropped_at"], row["dropped_by"]) == ("PENDING", None, None)
