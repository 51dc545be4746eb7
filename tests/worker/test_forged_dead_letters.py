"""A dead letter revives only a turn of its own tenant, session and queue: a sender may name any turn."""

from uuid import UUID

import pytest
import structlog.testing

from tests.support.claims import fail_next
from tests.support.factories import make_submission
from tests.support.processors import Noting, message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.dead_letters.redrive_log import read_redrive_log
from turnstile.statements.submit import submit
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.wire_format import DEAD_LETTER_GENERATION
from turnstile.worker.session_lock import SessionLock


def dead_letter(turn_id: UUID, **named: str) -> ReceivedMessage:
    """A dead letter of generation 1 on the worker's queue."""
    plain = message_about(turn_id, **named)
    return ReceivedMessage(plain.message_id, plain.body, "handle", 1, {DEAD_LETTER_GENERATION: "1"}, False)


async def failed(database: Database, settings: Settings) -> UUID:
    """A FAILED turn of tenant `t`, session `s`, queue `turns`."""
    await submit(database, [make_submission("turns", "s")], resend_seconds=600.0)
    return await fail_next(database, settings, "s", halt=False, compensates=False)


async def state(database: Database) -> tuple[str, int]:
    [row] = await database.fetch("SELECT status, generation FROM turns", {})
    return row["status"], row["generation"]


@pytest.mark.parametrize(
    ("named", "its_queue"),
    [({"tenant_id": "another"}, "turns"), ({"session_id": "another"}, "turns"), ({}, "another")],
    ids=["tenant", "session", "queue"],
)
async def test_a_message_of_another_tenant_session_or_queue_revives_no_turn(
    settings: Settings,
    database: Database,
    lock: SessionLock,
    named: dict[str, str],
    its_queue: str,
    superuser: Database,
) -> None:
    forged, sqs = dead_letter(await failed(database, settings), **named), Noting()
    await superuser.fetch("UPDATE turns SET queue = %(queue)s", {"queue": its_queue})

    with structlog.testing.capture_logs() as lines, processing(settings, database, lock, "w", queues=sqs) as processor:
        await processor.process(forged)

    assert await state(database) == ("FAILED", 1)
    assert sqs.deleted == [forged]
    assert sqs.dead == [(forged, "it names a turn of another tenant, session or queue")]
    assert [line["log_level"] for line in lines if line["event"] == "message.malformed"] == ["error"]


async def test_a_dead_letter_that_names_its_own_turn_revives_it(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    letter, sqs = dead_letter(await failed(database, settings)), Noting()

    with processing(settings, database, lock, "w", queues=sqs) as processor:
        await processor.process(letter)

    assert await state(database) == ("SUCCEEDED", 2)
    assert (sqs.dead, sqs.deleted) == ([], [letter])
    [record] = await read_redrive_log(database, 9)
    assert (record.action, record.requested_by, record.turns) == ("move", f"message {letter.message_id}", 1)


async def test_a_dead_letter_of_another_generation_revives_and_records_nothing(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    letter = dead_letter(await failed(database, settings))
    await database.fetch("UPDATE turns SET generation = 2", {})

    with processing(settings, database, lock, "w", queues=Noting()) as processor:
        await processor.process(letter)

    assert await state(database) == ("FAILED", 2)
    assert await read_redrive_log(database, 9) == []


async def test_a_dead_letter_does_not_bring_back_a_turn_that_an_operator_has_given_up(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    letter, sqs = dead_letter(await failed(database, settings)), Noting()
    await database.fetch("UPDATE turns SET dropped_at = now(), dropped_by = 'ann'", {})

    with processing(settings, database, lock, "w", queues=sqs) as processor:
        await processor.process(letter)

    assert await state(database) == ("FAILED", 1)
    assert (sqs.dead, sqs.deleted) == ([], [letter])
    assert await read_redrive_log(database, 9) == []
