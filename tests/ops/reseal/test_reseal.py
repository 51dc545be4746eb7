"""`turnstile reseal`: what is plain, or under another key, comes under the present one; what was said stays the same."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.archive.archiving import age, archive, claim_head
from tests.ops.invoke import invoke_plain
from tests.support.factories import make_submission, make_terms
from tests.support.sealing import contents, key_text, pool
from tests.support.stored_text import columns_with
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.memory.durable_items import read_items, write_items
from turnstile.memory.item import Write
from turnstile.ops.reseal import reseal as reseal_module
from turnstile.ops.reseal.reseal import Resealed, reseal_all
from turnstile.ops.turns.attempts import read_attempts
from turnstile.ops.turns.operator_turns import read_messages
from turnstile.queries.turns import read_turn
from turnstile.sealing.contents import PLAIN
from turnstile.statements.once_values import record_value
from turnstile.statements.settle import Settlement, SettleRequest, settle
from turnstile.statements.submit import submit
from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus

CANARY = "canary-4711"

ANSWERED = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply={"say": CANARY})
FAILED = Settlement(
    status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, error_class="Boom", error=CANARY, traceback=CANARY
)


@pytest.fixture
async def keyless(settings: Settings) -> AsyncIterator[Database]:
    async with pool(settings, PLAIN) as opened:
        yield opened


@pytest.fixture
async def old(settings: Settings) -> AsyncIterator[Database]:
    async with pool(settings, contents("k1")) as opened:
        yield opened


@pytest.fixture
async def new(settings: Settings) -> AsyncIterator[Database]:
    """Of a process that seals with k2, and has the old key, too."""
    async with pool(settings, contents("k1", "k2", seal_with="k2")) as opened:
        yield opened


@pytest.fixture
async def only_new(settings: Settings) -> AsyncIterator[Database]:
    """Of a process from which the old key was taken."""
    async with pool(settings, contents("k2", seal_with="k2")) as opened:
        yield opened


async def have_turns(database: Database, settings: Settings) -> None:
    """A turn that was answered, one that failed and is compensated, and what they keep."""
    for session, how in (("good", ANSWERED), ("bad", FAILED)):
        await submit(database, [make_submission(settings.queue, session, {"say": CANARY})], resend_seconds=60)
        turn = await claim_head(database, settings, session)
        await record_value(database, turn, "charge", f'"{CANARY}"')
        await write_items(database, turn, [Write(key="k", value=CANARY, kind="fact")], uuid4())
        request = SettleRequest(turn=turn, settlement=how, more=False, next_claim_id=uuid4())
        await settle(database, replace(make_terms(settings), compensates=True), [request])


async def said(database: Database) -> list[Any]:
    """All that users and operators can read."""
    found: list[Any] = []
    rows = await database.fetch("SELECT id FROM turns UNION ALL SELECT id FROM archived_turns ORDER BY id", {})
    for row in rows:
        turn = await read_turn(database, "t", row["id"])
        assert turn is not None
        found += [turn.inputs, turn.output, turn.error]
        found += [one.content for one in await read_messages(database, "t", row["id"])]
        found += [(one.error, one.traceback) for one in await read_attempts(database, "t", row["id"])]
    for session in ("good", "bad"):
        found += [item.value for item in await read_items(database, "t", session, None)]
    return found


async def reseal(database: Database, **options: Any) -> Resealed:
    return sum([page async for page in reseal_all(database, pause_seconds=0, **options)], Resealed())


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("archived", [False, True])
async def test_all_contents_come_under_the_present_key(
    settings: Settings,
    keyless: Database,
    old: Database,
    new: Database,
    only_new: Database,
    sealed: bool,
    archived: bool,
) -> None:
    await have_turns(old if sealed else keyless, settings)
    if archived:
        await age(new)
        await archive(new, failed=True)
    before = await said(new)

    done = await reseal(new)

    assert done.sealed > 0
    assert (done.skipped, done.unreadable) == (0, 0)
    assert await said(only_new) == before
    assert await columns_with(new, CANARY) == []
    assert await columns_with(new, "sealed:1:k1:") == []
    assert (await reseal(new)).sealed == 0, "a second run finds nothing left"


async def test_a_dry_run_only_counts(settings: Settings, old: Database, new: Database) -> None:
    await have_turns(old, settings)

    counted = await reseal(new, dry_run=True)

    assert await columns_with(new, "sealed:1:k2:") == []
    assert (await reseal(new)).sealed == counted.sealed


async def test_a_run_that_was_stopped_is_begun_again(
    settings: Settings, old: Database, new: Database, only_new: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tuple(replace(shelf, rows=1) for shelf in reseal_module.SHELVES)
    monkeypatch.setattr(reseal_module, "SHELVES", small)
    await have_turns(old, settings)
    before = await said(new)
    pages = reseal_all(new, pause_seconds=0)
    stopped = [await anext(pages) for _ in range(3)]
    await pages.aclose()  # type: ignore[attr-defined]
    assert sum(page.sealed for page in stopped) == 3

    rest = await reseal(new)

    assert rest.sealed > 0
    assert await said(only_new) == before
    assert await columns_with(new, "sealed:1:k1:") == []


async def test_a_compensation_that_is_made_meanwhile_is_sealed_anew_too(
    settings: Settings, old: Database, new: Database
) -> None:
    """Its input is copied from tables that the run has not reached yet, into one that it has passed."""
    await submit(old, [make_submission(settings.queue, "bad", {"say": CANARY})], resend_seconds=60)
    turn = await claim_head(old, settings, "bad")
    await record_value(old, turn, "charge", f'"{CANARY}"')
    pages = reseal_all(new, pause_seconds=0)
    passed = [await anext(pages) for _ in ("messages", "turns")]

    request = SettleRequest(turn=turn, settlement=FAILED, more=False, next_claim_id=uuid4())
    await settle(new, replace(make_terms(settings), compensates=True), [request])
    copied = await columns_with(new, "sealed:1:k1:")
    rest = [page async for page in pages]

    assert passed[0].sealed == 1
    assert "messages.content" in copied
    assert rest[-1].sealed == 1
    assert await columns_with(new, "sealed:1:k1:") == []


async def test_a_content_that_cannot_be_opened_is_left_and_told(
    settings: Settings, old: Database, only_new: Database
) -> None:
    await have_turns(old, settings)
    before = await said(old)

    done = await reseal(only_new)

    assert done.sealed == 0
    assert done.unreadable > 0
    assert all(reason.startswith("sealed under key k1, which") for reason in done.reasons)
    assert await said(old) == before


async def test_a_row_that_another_transaction_has_locked_is_left_for_the_next_run(
    settings: Settings, old: Database, new: Database
) -> None:
    await have_turns(old, settings)
    async with old.connection() as other, other.transaction():
        await other.execute("SELECT 1 FROM turns WHERE status = 'FAILED' FOR UPDATE")
        done = await reseal(new)

    assert done.skipped == 1
    assert (await reseal(new)).sealed == 1


def test_without_a_key_that_seals_the_command_says_what_to_do(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(key_text(seal_with=None))
    for given in ({}, {"TURNSTILE_SEALING_KEYS_FILE": str(file)}):
        ran = invoke_plain("reseal", "--yes", DATABASE_URL=settings.database_url, **given)

        assert ran.code == 2
        assert ran.err == (
            'turnstile: no key seals: name a file in TURNSTILE_SEALING_KEYS_FILE, and a key of it in "seal_with"\n'
        )
