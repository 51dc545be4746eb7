"""A redrive that looks at how its turns end: the canary, and the stop by itself."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from tests.ops.dead_turns import make_failed, rows
from tests.statements.calls import FAILURE, SUCCESS
from tests.support.claims import claim_sessions, settle_one
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.failed_turns import FailedFilter, list_failed
from turnstile.ops.dead_letters.redrive import Pace, Redrive, RedriveResult
from turnstile.ops.dead_letters.redrive_command import PrintedRedrive
from turnstile.ops.dead_letters.redrive_log import read_redrive_log
from turnstile.ops.dead_letters.stop_rule import Ends
from turnstile.statements.revive import Revived
from turnstile.turn.settlement import Settlement


class Answered(Redrive):
    """A redrive whose turns are answered at once, one after the other as `script` says; what is beyond it succeeds."""

    script: Sequence[Settlement] = ()
    answers = True

    async def send(self, revived: Sequence[Revived], result: RedriveResult) -> None:
        await super().send(revived, result)
        for place, one in enumerate(revived, len(result.revived) - len(revived)):
            if self.answers:
                [turn] = await claim_sessions(self._database, self._settings, one.message.wake_up.session_id)
                settlement = self.script[place] if place < len(self.script) else SUCCESS
                await settle_one(self._database, self._settings, turn, settlement)


@pytest.fixture
def redrive(database: Database, queues: MessageQueues, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Answered:
    monkeypatch.setattr("turnstile.ops.dead_letters.redriven_turns.LOOK_SECONDS", 0.0)
    return Answered(database, queues, settings, requested_by="ada@test", observer=PrintedRedrive())


@pytest.fixture
def short_canary(monkeypatch: pytest.MonkeyPatch) -> None:
    """The redrive does not wait ten minutes for its canary."""
    monkeypatch.setattr("turnstile.ops.dead_letters.redriven_turns.CANARY_WAIT_SECONDS", 0.05)


async def run(redrive: Redrive, pace: Pace) -> RedriveResult:
    wanted = FailedFilter()
    return await redrive.run(wanted, await list_failed(redrive._database, wanted), pace=pace)


async def generations(database: Database, failed: Sequence[UUID]) -> list[int]:
    found = await rows(database)
    return [found[turn_id]["generation"] for turn_id in failed]


async def test_after_a_canary_that_succeeds_the_others_follow(
    redrive: Answered, database: Database, settings: Settings
) -> None:
    failed = await make_failed(database, settings, [f"s{number}" for number in range(12)])
    redrive.script = [FAILURE, *[SUCCESS] * 9]

    result = await run(redrive, Pace(canary=10))

    assert (result.stopped, result.not_tried, len(result.revived)) == (None, 0, 12)
    assert await generations(database, failed) == [2] * 12


async def test_after_a_canary_that_fails_the_others_stay_and_the_reason_is_recorded(
    redrive: Answered, database: Database, settings: Settings
) -> None:
    failed = await make_failed(database, settings, [f"s{number}" for number in range(8)])
    redrive.script = [SUCCESS, FAILURE, FAILURE]

    result = await run(redrive, Pace(canary=3))

    assert result.stopped == "the canary failed: 1 succeeded, 2 failed again (Boom 2); at least 3 of 3 must succeed"
    assert (result.not_tried, len(result.revived)) == (5, 3)
    assert await generations(database, failed) == [2] * 3 + [1] * 5
    [record] = await read_redrive_log(database, 10)
    assert (record.outcome, record.reason, record.matched, record.turns) == ("stopped", result.stopped, 8, 3)
    assert record.left_alone == 5
    assert record.finished_at is not None


@pytest.mark.usefixtures("short_canary")
async def test_a_canary_that_does_not_end_in_time_stops_the_redrive(
    redrive: Answered, database: Database, settings: Settings
) -> None:
    failed = await make_failed(database, settings, ["a", "b"])
    redrive.answers = False

    result = await run(redrive, Pace(canary=1))

    assert result.stopped == "the canary did not end in time: 1 not ended yet; at least 1 of 1 must succeed"
    assert await generations(database, failed) == [2, 1]


@pytest.mark.usefixtures("short_canary")
async def test_while_a_canary_runs_a_line_says_how_far_it_is_and_at_its_end_which_turns_have_not_ended(
    redrive: Answered,
    database: Database,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("turnstile.ops.terminal.output.PROGRESS_EVERY_SECONDS", 0.0)
    failed = await make_failed(database, settings, [f"s{number}" for number in range(8)])
    redrive.answers = False

    await run(redrive, Pace(canary=7))

    lines = capsys.readouterr().err.splitlines()
    assert "canary: 7 not ended yet" in lines
    named = ", ".join(map(str, failed[:5]))
    assert lines[-1] == f"canary: not ended yet: {named} and 2 more; see turnstile why {failed[0]}"


async def test_without_a_canary_it_stops_when_the_turns_fail_again(
    redrive: Answered, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.dead_letters.redrive.BATCH", 5)
    failed = await make_failed(database, settings, [f"s{number}" for number in range(20)])
    redrive.script = [FAILURE] * 20

    result = await run(redrive, Pace())

    assert result.stopped == "too many turns fail again: of the last 10 that ended, 10 failed again (Boom 10)"
    assert (len(result.revived), result.not_tried, result.ended.failed) == (10, 10, {"Boom": 10})
    assert await generations(database, failed) == [2] * 10 + [1] * 10


async def test_only_the_turns_that_ended_last_are_judged(
    redrive: Answered, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.dead_letters.redrive.BATCH", 5)
    await make_failed(database, settings, [f"s{number}" for number in range(45)])
    redrive.script = [*[SUCCESS] * 25, *[FAILURE] * 20]

    result = await run(redrive, Pace())

    assert (
        result.stopped
        == "too many turns fail again: of the last 20 that ended, 10 succeeded, 10 failed again (Boom 10)"
    )
    assert (len(result.revived), result.not_tried) == (35, 10)


async def test_a_turn_that_another_redrive_has_put_back_is_not_watched(
    redrive: Answered, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_failed(database, settings, ["a", "b"])
    found = await list_failed(database, FailedFilter())
    await Redrive(database, queues, settings, requested_by="ada@test").revive(found[:1], RedriveResult())

    result = await redrive.run(FailedFilter(), found, pace=Pace(canary=2))

    assert (result.moved_on, result.stopped, result.ended.total) == (1, None, 1)


async def test_a_turn_that_is_left_alone_does_not_count_for_the_canary(
    redrive: Answered, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    failed = await make_failed(database, settings, [f"s{number}" for number in range(8)])
    found = await list_failed(database, FailedFilter())
    await Redrive(database, queues, settings, requested_by="ada@test").revive(found[:3], RedriveResult())
    redrive.script = [SUCCESS, FAILURE]

    result = await redrive.run(FailedFilter(), found, pace=Pace(canary=2))

    assert result.stopped == "the canary failed: 1 succeeded, 1 failed again (Boom 1); at least 2 of 2 must succeed"
    assert (len(result.revived), result.moved_on, result.not_tried) == (2, 3, 3)
    assert await generations(database, failed) == [2] * 5 + [1] * 3


async def test_a_turn_that_was_redriven_once_more_has_failed_again(
    redrive: Answered, database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a", "b"])
    redrive.script = [FAILURE]
    other = Redrive(database, redrive._queues, settings, requested_by="ada@test")
    first_send = redrive.send

    async def send(revived: Sequence[Revived], result: RedriveResult) -> None:
        await first_send(revived, result)
        await other.revive(
            [turn for turn in await list_failed(database, FailedFilter()) if turn.generation == 2], result
        )

    redrive.send = send  # type: ignore[method-assign]
    result = await run(redrive, Pace(canary=1))

    assert result.ended == Ends(failed=result.ended.failed)
    assert result.ended.failed == {"unknown": 1}


async def test_the_order_in_a_session_is_that_of_seq_over_batches_whatever_the_ids(
    database: Database, queues: MessageQueues, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.dead_letters.redrive.BATCH", 2)
    failed = await make_failed(database, settings, ["a", "b"] * 4)
    # As with ids that a client has chosen: the last turn has the lowest.
    for place, turn_id in enumerate(failed):
        new = UUID(int=100 - place)
        await database.fetch("UPDATE turns SET id = %(new)s WHERE id = %(id)s", {"new": new, "id": turn_id})
    before = {turn.id: turn.seq or 0 for turn in await list_failed(database, FailedFilter())}

    await run(Redrive(database, queues, settings, requested_by="ada@test"), Pace())

    after = await rows(database)
    for session in ("a", "b"):
        turns = sorted((row for row in after.values() if row["session_id"] == session), key=lambda row: row["seq"])
        assert [before[row["id"]] for row in turns] == [1, 2, 3, 4]
        assert [row["seq"] for row in turns] == [5, 6, 7, 8]
