"""Reads of one turn, always within one tenant."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

from tests.statements.calls import FAILURE, SUCCESS
from tests.support.claims import claimed, settle_one, submit_turns
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.queries.turns import read_turn
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import Settlement
from turnstile.turn.status import TurnStatus


def success(reply: Any) -> Settlement:
    return replace(SUCCESS, reply=reply)


async def answer_next(database: Database, settings: Settings, settlement: Settlement) -> ClaimedTurn:
    turn = await claimed(database, settings)
    await settle_one(database, settings, turn, settlement)
    return turn


async def test_a_turn_is_read_with_its_reply(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    answered = await answer_next(database, settings, success({"say": ["hi"]}))

    turn = await read_turn(database, "t", answered.id)

    assert turn is not None
    assert (turn.status, turn.output, turn.seq, turn.attempt) == (TurnStatus.SUCCEEDED, {"say": ["hi"]}, 1, 1)
    assert turn.finished_at is not None


async def test_a_failed_turn_is_read_without_a_reply(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    failed = await answer_next(database, settings, FAILURE)

    turn = await read_turn(database, "t", failed.id)

    assert turn is not None
    assert (turn.status, turn.output, turn.error_class, turn.error) == (TurnStatus.FAILED, None, "Boom", "boom")


async def test_a_turn_of_another_tenant_is_not_found(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    answered = await answer_next(database, settings, success("hi"))

    assert await read_turn(database, "another", answered.id) is None
    assert await read_turn(database, "t", uuid4()) is None
