"""Contents in Postgres: sealed by a process with keys, read back by it, and told by one without."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from tests.archive.archiving import age, archive, claim_head, in_table
from tests.support.factories import make_claim, make_submission, make_terms
from tests.support.stored_text import columns_with
from turnstile.archive.reads import TurnKey
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import (
    BrokenSealError,
    FirstRequestSealedError,
    IdempotencyMismatchError,
    KeyMissingError,
)
from turnstile.memory.durable_items import read_items, write_items
from turnstile.memory.item import Write
from turnstile.ops.dead_letters.failed_turns import group_failures
from turnstile.ops.turns.attempts import read_attempts
from turnstile.ops.turns.operator_turns import read_messages
from turnstile.ops.why.read_wait_facts import read_wait_facts
from turnstile.queries.session_messages import read_history, read_history_as_text
from turnstile.queries.turn_lists import TurnFilter, list_page
from turnstile.queries.turns import read_turn, read_turns
from turnstile.sealing.contents import Unopened
from turnstile.statements.claim import claim
from turnstile.statements.once_values import read_values, record_value
from turnstile.statements.settle import Settled, SettleRequest, settle
from turnstile.statements.start_children import read_outputs, read_states
from turnstile.statements.submit import Accepted, ParentClaim, submit
from turnstile.statements.submit_on_busy import submit_on_busy
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.on_busy import OnBusy
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus

INPUT, REPLY, ERROR, TRACE, VALUE, ITEM = (f"canary-{name}" for name in ("in", "out", "err", "tb", "value", "item"))
MISSING = "(sealed under key k1, which this process does not have"

ANSWERED = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply={"say": REPLY})
FAILED = Settlement(
    status=TurnStatus.FAILED,
    outcome=AttemptOutcome.FAILED,
    error_class="Boom",
    error=ERROR,
    traceback=TRACE,
    dead_letter=True,
)
CANCELED = Settlement(status=TurnStatus.CANCELED, outcome=AttemptOutcome.CANCELED, partial=REPLY)


async def begin(database: Database, settings: Settings, session_id: str = "s", content: Any = INPUT) -> ClaimedTurn:
    await submit(database, [make_submission(settings.queue, session_id, content)], resend_seconds=60)
    return await claim_head(database, settings, session_id)


async def end(database: Database, settings: Settings, turn: ClaimedTurn, how: Settlement = ANSWERED) -> Settled:
    request = SettleRequest(turn=turn, settlement=how, more=True, next_claim_id=uuid4())
    terms = replace(make_terms(settings), compensates=True)
    [settled] = await settle(database, terms, [request])
    assert isinstance(settled, Settled)
    return settled


async def test_what_was_said_is_sealed_and_read_back(database: Database, settings: Settings) -> None:
    turn = await begin(database, settings)
    settled = await end(database, settings, turn)

    assert turn.inputs == (INPUT,)
    assert settled.reply is not None
    assert settled.reply.text == f'{{"say":"{REPLY}"}}', "the history in Redis is made of it"
    shown = await read_turn(database, "t", turn.id)
    assert shown is not None
    assert (shown.inputs, shown.output) == ([INPUT], {"say": REPLY})
    assert [one.content for one in await read_history(database, "t", "s", limit=9)] == [INPUT, {"say": REPLY}]
    texts = await read_history_as_text(database, "t", "s", limit=9, before_seq=9, max_bytes=1000)
    assert [one.text for one in texts] == [f'{{"say":"{REPLY}"}}', f'"{INPUT}"']
    assert await columns_with(database, "canary-") == []


async def test_the_settle_that_claims_the_next_turn_opens_its_input(database: Database, settings: Settings) -> None:
    turn = await begin(database, settings)
    await submit(database, [make_submission(settings.queue, "s", "next")], resend_seconds=60)

    settled = await end(database, settings, turn)

    assert isinstance(settled.next, ClaimedTurn)
    assert settled.next.inputs == ("next",)


async def test_errors_and_tracebacks_are_sealed(database: Database, settings: Settings) -> None:
    turn = await begin(database, settings)
    await end(database, settings, turn, FAILED)

    shown = await read_turn(database, "t", turn.id)
    assert shown is not None
    assert shown.error == ERROR
    [attempt] = await read_attempts(database, "t", turn.id)
    assert (attempt.error, attempt.traceback) == (ERROR, TRACE)
    [group] = await group_failures(database)
    assert group.sample_error == ERROR
    assert await columns_with(database, "canary-") == []


async def test_a_partial_reply_is_sealed(database: Database, settings: Settings) -> None:
    turn = await begin(database, settings)
    await end(database, settings, turn, CANCELED)

    assert [(one.kind, one.content) for one in await read_messages(database, "t", turn.id)] == [
        ("message", INPUT),
        ("partial", REPLY),
    ]
    assert await columns_with(database, "canary-") == []


async def test_recorded_values_are_sealed(database: Database, settings: Settings) -> None:
    turn = await begin(database, settings)

    recorded = await record_value(database, turn, "charge", f'{{"id": "{VALUE}"}}')
    again = await record_value(database, turn, "charge", '"other"')

    assert recorded is not None
    assert again is not None
    assert recorded.value == again.value == {"id": VALUE}
    assert await read_values(database, turn) == {"charge": {"id": VALUE}}
    assert await columns_with(database, VALUE) == []


async def test_durable_items_are_sealed(database: Database, settings: Settings) -> None:
    turn = await begin(database, settings)

    await write_items(database, turn, [Write(key="k", value=ITEM, kind="fact", metadata={"of": ITEM})], uuid4())

    [item] = await read_items(database, "t", "s", None)
    assert (item.value, item.metadata) == (ITEM, {"of": ITEM})
    assert await columns_with(database, ITEM) == []


async def test_a_child_is_sealed_under_its_own_turn(database: Database, settings: Settings) -> None:
    parent = await begin(database, settings, "parent")
    children = [
        make_submission(settings.queue, f"child-{key}", INPUT, parent=ParentClaim(parent.id, parent.fence, key))
        for key in ("good", "bad")
    ]
    await submit(database, children, resend_seconds=60)
    good, bad = [await claim_head(database, settings, child.session_id) for child in children]
    await end(database, settings, good)
    await end(database, settings, bad, FAILED)

    states = await read_states(database, parent.id, [good.id, bad.id])
    assert states[bad.id].error == ERROR
    sessions = {good.id: states[good.id].session_id}
    assert await read_outputs(database, "t", sessions) == {good.id: {"say": REPLY}}
    assert await columns_with(database, "canary-") == []


async def test_a_compensation_gets_what_the_failed_turn_had(database: Database, settings: Settings) -> None:
    turn = await begin(database, settings, content={"say": INPUT})
    await record_value(database, turn, "charge", f'"{VALUE}"')
    await end(database, settings, turn, FAILED)
    [row] = await database.fetch("SELECT session_id FROM turns WHERE kind = 'compensation'", {})

    [undoing] = await claim(database, make_terms(settings), [make_claim(row["session_id"])])

    assert isinstance(undoing, ClaimedTurn)
    [told] = undoing.inputs
    assert (told["error"], told["inputs"], told["values"]) == (ERROR, [{"say": INPUT}], {"charge": VALUE})
    shown = await read_turn(database, "t", undoing.id)
    assert shown is not None
    assert shown.inputs == [told]
    [message] = await read_messages(database, "t", undoing.id)
    assert message.content == told
    assert await columns_with(database, "canary-") == []


async def test_merged_input_is_sealed_under_the_turn_that_it_joins(database: Database, settings: Settings) -> None:
    await submit(database, [make_submission(settings.queue, "s", INPUT)], resend_seconds=60)
    merged = make_submission(settings.queue, "s", "and more", on_busy=OnBusy.MERGE)
    await submit_on_busy(database, merged, resend_seconds=60)

    assert (await claim_head(database, settings, "s")).inputs == (INPUT, "and more")


async def test_archived_contents_stay_sealed_and_readable(
    database: Database, keyless: Database, settings: Settings
) -> None:
    turn = await begin(database, settings)
    await record_value(database, turn, "k", f'"{VALUE}"')
    await end(database, settings, turn)
    await age(database)
    before = await read_turn(database, "t", turn.id)

    await archive(keyless)

    assert await in_table(database) == []
    assert await read_turn(database, "t", turn.id) == before
    assert [one.content for one in await read_messages(database, "t", turn.id)] == [INPUT, {"say": REPLY}]
    assert len(await read_attempts(database, "t", turn.id)) == 1
    assert await columns_with(database, "canary-") == []


async def test_rows_from_before_the_first_key_stay_readable(
    database: Database, keyless: Database, settings: Settings
) -> None:
    turn = await begin(keyless, settings)
    await record_value(keyless, turn, "k", '{"plain": 1}')
    await end(keyless, settings, turn)
    following = await begin(database, settings)
    await end(database, settings, following)

    said = [one.content for one in await read_history(database, "t", "s", limit=9)]
    assert said == [INPUT, {"say": REPLY}] * 2
    assert await read_values(database, turn) == {"k": {"plain": 1}}


async def test_a_text_that_looks_sealed_is_a_text(database: Database, keyless: Database, settings: Settings) -> None:
    for number, writer in enumerate((database, keyless)):
        turn = await begin(writer, settings, f"s{number}", "sealed:1:k1:AAAA")
        await record_value(writer, turn, "k", '"sealed:0:x"')
        await end(writer, settings, turn, replace(ANSWERED, reply="sealed:"))

        shown = await read_turn(database, "t", turn.id)
        assert shown is not None
        assert (shown.inputs, shown.output) == (["sealed:1:k1:AAAA"], "sealed:")
        assert await read_values(database, turn) == {"k": "sealed:0:x"}


async def test_lists_errors_and_waits_are_read_without_a_key(
    database: Database, keyless: Database, settings: Settings
) -> None:
    failed = await begin(database, settings)
    await end(database, settings, failed, FAILED)

    [listed], _ = await list_page(keyless, TurnFilter(tenant_id="t", session_id="s"), limit=9)
    assert listed.error is not None
    assert listed.error.startswith(MISSING)
    [attempt] = await read_attempts(keyless, "t", failed.id)
    assert str(attempt.traceback).startswith(MISSING)
    facts = await read_wait_facts(keyless, [failed.id])
    assert str(facts[failed.id].turn.error).startswith(MISSING)
    [group] = await group_failures(keyless)
    assert str(group.sample_error).startswith(MISSING)


async def test_what_needs_contents_says_that_the_key_is_missing(
    database: Database, keyless: Database, settings: Settings
) -> None:
    turn = await begin(database, settings)
    await record_value(database, turn, "k", "1")
    await end(database, settings, turn)

    [shown] = await read_turns(keyless, [TurnKey("t", turn.id)])
    assert shown is not None
    assert isinstance(shown.output, Unopened)
    for read in (
        read_messages(keyless, "t", turn.id),
        read_history(keyless, "t", "s", limit=9),
        read_values(keyless, turn),
    ):
        with pytest.raises(KeyMissingError):
            await read


async def test_a_claim_without_the_key_fails_no_other_claim(
    database: Database, keyless: Database, settings: Settings
) -> None:
    await submit(database, [make_submission(settings.queue, "sealed", INPUT)], resend_seconds=60)
    await submit(keyless, [make_submission(settings.queue, "plain", "hi")], resend_seconds=60)

    sealed, plain = await claim(keyless, make_terms(settings), [make_claim("sealed"), make_claim("plain")])

    assert isinstance(sealed, ClaimedTurn)
    assert isinstance(sealed.inputs[0], Unopened)
    assert isinstance(plain, ClaimedTurn)
    assert plain.inputs == ("hi",)


async def test_a_content_that_was_moved_to_another_turn_is_refused(database: Database, settings: Settings) -> None:
    first = await begin(database, settings, "s", "mine")
    second = await begin(database, settings, "other", "yours")
    await database.fetch(
        "UPDATE messages SET content = (SELECT m.content FROM messages m WHERE m.turn_id = %(from)s) WHERE turn_id = %(to)s",
        {"from": first.id, "to": second.id},
    )

    with pytest.raises(BrokenSealError):
        await read_messages(database, "t", second.id)
    [message] = await read_messages(database, "t", first.id)
    assert message.content == "mine"


async def test_a_repeat_is_known_by_a_fingerprint_that_nobody_can_guess(
    database: Database, rotated: Database, keyless: Database, settings: Settings
) -> None:
    first = make_submission(settings.queue, "s", "my pin is 4711", key="key:1")
    await submit(database, [first], resend_seconds=60)
    again = replace(first, turn_id=uuid4())
    other = replace(again, fingerprint=bytes(32))
    [row] = await database.fetch("SELECT fingerprint FROM submissions", {})
    assert first.fingerprint not in row["fingerprint"]

    for of_process in (database, rotated):
        [found] = await submit(of_process, [again], resend_seconds=60)
        assert isinstance(found, Accepted)
        assert found.replayed
        assert found.turn_id == first.turn_id
        [refused] = await submit(of_process, [other], resend_seconds=60)
        assert isinstance(refused, IdempotencyMismatchError)
    [unknown, fresh] = await submit(keyless, [again, make_submission(settings.queue, "s2")], resend_seconds=60)
    assert isinstance(unknown, FirstRequestSealedError)
    assert isinstance(fresh, Accepted)


async def test_a_repeat_under_a_policy_is_known_likewise(
    database: Database, rotated: Database, keyless: Database, settings: Settings
) -> None:
    first = make_submission(settings.queue, "s", "hi", key="key:1", on_busy=OnBusy.REJECT)
    await submit_on_busy(database, first, resend_seconds=60)

    found = await submit_on_busy(rotated, replace(first, turn_id=uuid4()), resend_seconds=60)

    assert found.answer.turn_id == first.turn_id
    with pytest.raises(IdempotencyMismatchError):
        await submit_on_busy(database, replace(first, fingerprint=bytes(32)), resend_seconds=60)
    with pytest.raises(FirstRequestSealedError):
        await submit_on_busy(keyless, first, resend_seconds=60)


async def test_after_a_rotation_old_and_new_contents_open(
    database: Database, rotated: Database, settings: Settings
) -> None:
    old = await begin(database, settings)
    await end(database, settings, old)
    new = await begin(rotated, settings)
    await end(rotated, settings, new)

    assert len(await read_history(rotated, "t", "s", limit=9)) == 4
    stored = await rotated.fetch("SELECT content FROM messages WHERE turn_id = %(id)s", {"id": new.id})
    assert all(row["content"].startswith("sealed:1:k2:") for row in stored)
