"""The record of redrives, as an operator reads it."""

from uuid import uuid4

from turnstile.backends.postgres.database import Database
from turnstile.ops.dead_letters.redrive_log import read_redrive_log
from turnstile.statements.redrive_audit import RedriveOutcome, begin


async def test_a_record_of_several_rows_is_one_entry_with_all_its_turns(database: Database) -> None:
    large = await begin(database, requested_by="ada@test", queue=None, wanted={"error_class": "timeout"}, matched=1700)
    other = await begin(database, requested_by="bob@test", queue="turns", wanted={}, matched=2)
    for many in (1000, 600):
        await large.note([uuid4() for _ in range(many)])
    await other.note([uuid4()])
    await large.finish(sent=1599, unsent=1)

    newer, older = await read_redrive_log(database, 10)

    assert (newer.requested_by, newer.turns, newer.outcome, newer.finished_at) == ("bob@test", 1, None, None)
    assert (older.requested_by, older.filter, older.matched, older.turns) == (
        "ada@test", {"error_class": "timeout"}, 1700, 1600,
    )  # fmt: skip
    assert (older.left_alone, older.sent, older.unsent, older.outcome) == (100, 1599, 1, "finished")
    assert [one.id for one in await read_redrive_log(database, 1)] == [other.id]


async def test_a_record_that_was_broken_off_says_so_and_stays_unfinished(database: Database) -> None:
    record = await begin(database, requested_by="ada@test", queue=None, wanted={})

    await record.finish(RedriveOutcome.BROKEN_OFF, "CancelledError")

    [found] = await read_redrive_log(database, 10)
    assert (found.outcome, found.reason, found.finished_at) == ("broken_off", "CancelledError", None)
