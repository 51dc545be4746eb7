"""The record of a redrive of many turns."""

from uuid import uuid4

from turnstile.backends.postgres.database import Database
from turnstile.statements.redrive_audit import TURNS_A_ROW, begin

BATCH, MANY = 50, 2_550


async def test_a_large_redrive_is_recorded_in_rows_of_a_bounded_size_that_name_the_first(database: Database) -> None:
    revived = [uuid4() for _ in range(MANY)]

    record = await begin(database, requested_by="ada@test", queue="turns", wanted={"error_class": "ValueError"})
    for start in range(0, MANY, BATCH):
        await record.note(revived[start : start + BATCH])
    await record.finish()

    first, *further = found = await database.fetch("SELECT * FROM redrives ORDER BY id", {})
    assert [turn_id for row in found for turn_id in row["turn_ids"]] == revived
    assert max(len(row["turn_ids"]) for row in found) <= TURNS_A_ROW
    assert (first["id"], first["filter"]) == (record.id, {"error_class": "ValueError"})
    assert [row["filter"] for row in further] == [{"continues": record.id}] * 2
    assert {(row["queue"], row["requested_by"]) for row in found} == {("turns", "ada@test")}
    assert {row["finished_at"] for row in further} == {first["finished_at"]} != {None}
