"""What an operator sees of children and compensations."""

import json
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import send_dead_letters
from tests.statements.calls import FAILURE
from tests.support.claims import claim_sessions, fail_next, settle_one
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.failed_turns import FailedFilter, list_failed
from turnstile.ops.dead_letters.redrive import Redrive, RedriveResult
from turnstile.statements.revive import Revived
from turnstile.statements.submit import ParentClaim, Submission, submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import TraceContext
from turnstile.turn.settlement import AttemptOutcome, JoinPolicy, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.turn.turn_record import TurnRecord


@pytest.fixture
async def family(database: Database, settings: Settings) -> tuple[UUID, UUID]:
    """A parent that waits, and its child."""
    parent = make_submission(settings.queue, "parent")
    await submit(database, [parent], resend_seconds=60.0)
    [turn] = await claim_sessions(database, settings, "parent")
    child = _child_of(turn, settings)
    await submit(database, [child], resend_seconds=60.0)
    joins = Settlement(
        status=TurnStatus.PENDING, outcome=AttemptOutcome.JOINED, refund=True, after_seconds=900.0,
        joining=(child.turn_id,), join_policy=JoinPolicy.ALL,
    )  # fmt: skip
    await settle_one(database, settings, turn, joins)
    return parent.turn_id, child.turn_id


def _child_of(turn: ClaimedTurn, settings: Settings) -> Submission:
    made = make_submission(settings.queue, "child", parent=ParentClaim(turn.id, turn.fence, "dig"))
    return replace(made, trace=TraceContext(turn.trace_id, "c" * 16, turn.span_id))


async def test_a_trace_shows_which_turn_waits_and_which_call_started_a_child(
    turnstile: Turnstile, family: tuple[UUID, UUID]
) -> None:
    parent, child = family

    ran = await turnstile("trace", str(parent), COLUMNS="250")
    shown = json.loads((await turnstile("status", str(child), "--json")).out)["turn"]

    header, *lines = [line for line in ran.out.splitlines() if line.strip("-─━ ")]
    assert "call" in header
    assert [(f"{parent}" in line, f"  {child}" in line) for line in lines] == [(True, False), (False, True)]
    assert "PENDING, joins all of 1" in lines[0]
    assert "dig" in lines[1]
    assert (shown["parent_turn_id"], shown["kind"]) == (str(parent), "turn")


async def test_a_child_that_was_started_again_is_not_a_dead_letter_and_the_commands_say_why(
    turnstile: Turnstile, database: Database, settings: Settings, queues: MessageQueues
) -> None:
    parent = make_submission(settings.queue, "parent")
    await submit(database, [parent], resend_seconds=60.0)
    [turn] = await claim_sessions(database, settings, "parent")
    child = _child_of(turn, settings)
    await submit(database, [child], resend_seconds=60.0)
    for failing in (*await claim_sessions(database, settings, "child"), turn):
        await settle_one(database, settings, failing, FAILURE)
    await send_dead_letters(database, queues, settings)
    await turnstile("redrive", "--turn", str(parent.turn_id), "--yes")
    [again] = await claim_sessions(database, settings, "parent")
    await submit(database, [_child_of(again, settings)], resend_seconds=60.0)

    shown = await turnstile("dlq", "show", str(child.turn_id))
    named = await turnstile("redrive", "--turn", str(child.turn_id), "--yes", "--json")

    assert f"{child.turn_id} is FAILED, and its parent has started it again since" in shown.err
    assert f"{child.turn_id} is FAILED, and its parent has started it again since" in named.err
    done = json.loads(named.out)
    assert (done["matched"], done["revived"], done["letters"], done["swept"]) == (0, 0, {"outlived": 1}, 1)


@pytest.mark.parametrize("halt", [False, True])
async def test_a_turn_whose_compensation_has_not_ended_is_left_alone_and_the_commands_say_why(
    turnstile: Turnstile, database: Database, settings: Settings, halt: bool
) -> None:
    turn = make_submission(settings.queue, "s")
    await submit(database, [turn], resend_seconds=60.0)
    await fail_next(database, settings, "s", halt=halt, compensates=True)

    ran = await turnstile(*(("retry", str(turn.turn_id)) if halt else ("redrive", "--json")), "--yes")

    if halt:
        assert ran.code == 1
        assert f"{turn.turn_id} is FAILED, and its compensation has not ended yet" in ran.err
    else:
        done = json.loads(ran.out)
        assert (ran.code, done["matched"], done["revived"], done["compensated"], done["moved_on"]) == (0, 1, 0, 1, 0)
        assert "1 turn left alone: the compensation has not ended yet" in ran.err
    [row] = await database.fetch("SELECT status FROM turns WHERE kind = 'turn'", {})
    assert row["status"] == "FAILED"


async def test_a_compensation_whose_turn_was_put_back_since_is_left_alone_and_the_command_says_why(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    turn = make_submission(settings.queue, "s")
    await submit(database, [turn], resend_seconds=60.0)
    await fail_next(database, settings, "s", halt=False, compensates=True)
    [undoing] = await database.fetch("SELECT id, session_id FROM turns WHERE kind = 'compensation'", {})
    [running] = await claim_sessions(database, settings, undoing["session_id"])
    await settle_one(database, settings, running, FAILURE)
    await turnstile("redrive", "--turn", str(turn.turn_id), "--yes")

    ran = await turnstile("dlq", "show", str(undoing["id"]))

    assert f"{undoing['id']} is FAILED, and the turn that it compensates was put back to work since" in ran.err


class OneByOne(Redrive):
    """A redrive with batches of one turn: the compensation has to come first."""

    async def revive(self, batch: Sequence[TurnRecord], result: RedriveResult) -> list[Revived]:
        return [revived for one in batch for revived in await super(OneByOne, self).revive([one], result)]


async def test_a_redrive_brings_back_a_failed_compensation_and_not_its_turn(
    database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await submit(database, [make_submission(settings.queue, "s")], resend_seconds=60.0)
    await fail_next(database, settings, "s", halt=False, compensates=True)
    [undoing] = await database.fetch("SELECT id, session_id FROM turns WHERE kind = 'compensation'", {})
    [running] = await claim_sessions(database, settings, undoing["session_id"])
    await settle_one(database, settings, running, FAILURE)

    redrive = OneByOne(database, queues, settings, requested_by="ada@test")
    result = await redrive.run(FailedFilter(), await list_failed(database, FailedFilter()))

    assert (result.revived, result.compensated, result.moved_on) == ([undoing["id"]], 1, 0)
