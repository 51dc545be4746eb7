"""Starting children: each call makes one child, which every later run finds; an invalid child is refused."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from tests.support.claims import expire_leases, submit_turns
from tests.support.factories import make_claim, make_submission, make_terms, nest
from tests.worker.attempt.child_turns import PARENT, Family
from turnstile.errors import ChildIdTakenError, UnknownQueueError
from turnstile.statements.claim import claim
from turnstile.statements.start_children import make_child_id
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.limits import MAX_SECONDS
from turnstile.worker.attempt.children import MAX_CHILDREN, MAX_INPUT_CHARACTERS
from turnstile.worker.attempt.outcome import ClaimLost, Failed, JoinPending, classify


async def test_a_later_run_finds_the_same_children(family: Family, parent: ClaimedTurn) -> None:
    first, second = family.run(parent), family.run(parent)
    before = [await family.start(first, "a"), await family.start(first, "b"), await family.start(first, "c", key="k")]

    assert [await family.start(second, one) for one in "ab"] + [await family.start(second, "c", key="k")] == before
    assert len(await family.database.fetch("SELECT 1 FROM turns", {})) == 4


async def test_a_turn_with_a_reused_id_has_no_children_of_the_earlier_turn(family: Family, parent: ClaimedTurn) -> None:
    # The archive took the turn and left its child, whose session goes on; its id may be chosen again.
    earlier = await family.start(family.run(parent), key="notify")
    await family.end(earlier)
    for table, column in (("turns", "id"), ("messages", "turn_id")):
        await family.database.fetch(f"DELETE FROM {table} WHERE {column} = %(id)s", {"id": parent.id})  # type: ignore[arg-type]
    again = make_submission(family.settings.queue, "again", turn_id=parent.id)
    await submit(family.database, [again], resend_seconds=60.0)
    (turn,) = await claim(family.database, make_terms(family.settings), [make_claim("again")])
    assert isinstance(turn, ClaimedTurn)

    later = await family.start(family.run(turn), key="notify")

    assert later.id != earlier.id
    with pytest.raises(JoinPending):
        await family.run(turn).join([later], "all")


@pytest.mark.parametrize("tenant_id", ["t", "other"])
async def test_a_call_whose_child_has_the_id_of_a_strangers_turn_fails_its_handler_at_once(
    family: Family, parent: ClaimedTurn, tenant_id: str
) -> None:
    child_id = make_child_id(parent.id, parent.created_at, parent.span_id, parent.generation, "k")
    stranger = make_submission(family.settings.queue, "stranger", turn_id=child_id, tenant_id=tenant_id)
    await submit(family.database, [stranger], resend_seconds=60.0)

    with pytest.raises(ChildIdTakenError) as refused:
        await family.start(family.run(parent), key="k")

    outcome = classify(refused.value)
    assert isinstance(outcome, Failed)
    assert not outcome.may_heal


async def test_children_started_together_are_numbered_in_the_order_of_the_calls(
    family: Family, parent: ClaimedTurn
) -> None:
    run = family.run(parent)

    children = await asyncio.gather(*[family.start(run, f"{n}") for n in range(20)])

    rows = await family.database.fetch(
        "SELECT m.content, t.child_key FROM turns t JOIN messages m ON m.turn_id = t.id WHERE child_key IS NOT NULL", {}
    )
    assert {row["content"]: row["child_key"] for row in rows} == {f"{n}": f"#{n + 1}" for n in range(20)}
    assert len({child.id for child in children}) == 20


async def test_a_call_repeated_after_a_lost_response_makes_one_child(family: Family, parent: ClaimedTurn) -> None:
    # Neither run knows of the other's children: both read before anything was there.
    runs = [family.run(parent), family.run(parent)]
    for run in runs:
        await run._read()

    first, second = await asyncio.gather(*[family.start(run) for run in runs])

    assert first == second


async def test_children_are_nested_as_deep_as_the_bound_and_a_later_run_still_finds_the_last(
    family: Family, parent: ClaimedTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.worker.attempt.children.MAX_DEPTH", 3)
    turn = parent
    for _ in range(3):
        child = await family.start(family.run(turn), key="same")
        assert await family.start(family.run(turn), key="same") == child
        turn = await family.claim(child.session_id)

    with pytest.raises(ValueError, match="children may be nested 3 deep"):
        await family.start(family.run(turn), key="same")
    # Beside one another there is room.
    assert await family.start(family.run(parent), key="other")


async def test_a_superseded_parent_starts_nothing(family: Family, parent: ClaimedTurn) -> None:
    late = family.run(parent)
    await expire_leases(family.database)
    await family.claim()

    with pytest.raises(ClaimLost):
        await family.start(late)

    assert len(await family.database.fetch("SELECT 1 FROM turns", {})) == 1
    assert len(await family.database.fetch("SELECT 1 FROM sessions", {})) == 1


async def test_a_child_may_join_an_existing_session(family: Family, parent: ClaimedTurn) -> None:
    await submit_turns(family.database, family.settings, "other", session_id="other")

    child = await family.start(family.run(parent), session="other")

    assert ((await family.row(child.id))["seq"], child.session_id) == (2, "other")


async def test_an_invalid_child_is_refused(family: Family, parent: ClaimedTurn) -> None:
    invalid: list[dict[str, Any]] = [
        {"content": ""},
        {"content": " "},
        {"content": {"x": {1}}},
        {"content": "x" * (MAX_INPUT_CHARACTERS + 1)},
        {"session": "no spaces"},
        {"session": ".."},
        {"session": PARENT},
        {"session": f"compensation:{uuid4()}"},
        {"key": "#1"},
        {"key": ""},
        {"max_attempts": 0},
        {"timeout_seconds": 0},
        {"timeout_seconds": MAX_SECONDS + 1},
        {"expires_in_seconds": -1},
        {"metadata": {"x": "y" * 20_000}},
        {"metadata": nest(1, 201)},
    ]
    for options in invalid:
        with pytest.raises(ValueError, match=r"must|may not|JSON|more than|for ever|is for compensations"):
            await family.start(family.run(parent), **options)
    assert len(await family.database.fetch("SELECT 1 FROM turns", {})) == 1


async def test_a_queue_must_be_declared(family: Family, parent: ClaimedTurn) -> None:
    with pytest.raises(UnknownQueueError):
        await family.start(family.run(parent), queue="nowhere")


async def test_the_number_of_children_is_limited(family: Family, parent: ClaimedTurn) -> None:
    run = family.run(parent)
    run._asked_for.update(map(str, range(MAX_CHILDREN)))

    with pytest.raises(ValueError, match="may start"):
        await family.start(run, key="one too many")
