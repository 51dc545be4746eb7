"""A submit in the caller's transaction: there with its commit, or not at all; and what it refuses before it writes."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tests.support.callers import ALL, Open, by_psycopg, by_session
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import (
    IdempotencyMismatchError,
    SubmissionRefusedError,
    TurnIdTakenError,
    UnknownQueueError,
    WebhookNotAllowedError,
)
from turnstile.statements.cancel import cancel_ahead
from turnstile.statements.submit import Accepted
from turnstile.submission.callers_transaction import Submitter
from turnstile.submission.commit_then_wake import Submitting
from turnstile.submission.turn_request import InvalidRequestError, read_submission
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.identifiers import chosen_prefix


async def turns(database: Database) -> list[dict[str, Any]]:
    return await database.fetch("SELECT * FROM turns ORDER BY created_at", {})


async def said(database: Database) -> list[Any]:
    return [row["content"] for row in await database.fetch("SELECT content FROM messages ORDER BY turn_id", {})]


@pytest.fixture(params=ALL, ids=lambda one: one.__name__)
def each(request: pytest.FixtureRequest) -> Open:
    opener: Open = request.param
    return opener


# --- the transaction


async def test_the_turn_is_there_with_the_commit_and_not_before(
    each: Open, application_url: str, submitter: Submitter, database: Database, settings: Settings
) -> None:
    async with each(application_url, submitter) as caller:
        submitted = await caller.submit("chat-1", "Hello", key="message-7")
        before = await turns(database)
        await caller.commit()

    [turn] = await turns(database)
    assert before == []
    assert (turn["id"], turn["session_id"], turn["queue"]) == (submitted.id, "chat-1", settings.queue)
    assert (turn["status"], turn["seq"], turn["execute_at"], turn["tenant_id"]) == ("PENDING", None, None, "default")
    assert (submitted.created_at, submitted.expires_at) == (turn["created_at"], turn["expires_at"])
    assert (submitted.session_id, submitted.queue, submitted.repeated) == ("chat-1", settings.queue, False)
    assert await said(database) == ["Hello"]


async def test_a_rollback_leaves_nothing_also_of_the_key(
    each: Open, application_url: str, submitter: Submitter, database: Database
) -> None:
    async with each(application_url, submitter) as caller:
        await caller.submit("chat-1", "Hello", key="k")
        await caller.rollback()
        again = await caller.submit("chat-1", "another text", key="k")
        await caller.commit()

    assert [turn["id"] for turn in await turns(database)] == [again.id]
    assert again.repeated is False


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
async def test_at_each_isolation_level_a_transaction_may_submit_several(
    application_url: str, submitter: Submitter, database: Database, level: str
) -> None:
    engine = create_engine(application_url.replace("postgresql:", "postgresql+psycopg:"), isolation_level=level)
    with engine.connect() as one, engine.connect() as other:
        for connection in (one, other):
            for number in range(2):
                submitter.submit(connection, "chat-1", f"{number}", key=f"{id(connection)}-{number}")
        one.commit()
        other.commit()
    engine.dispose()

    assert len(await turns(database)) == 4


async def test_a_savepoint_that_is_rolled_back_takes_its_submit_with_it(
    application_url: str, submitter: Submitter, database: Database
) -> None:
    with psycopg.connect(application_url) as connection:
        kept = submitter.submit(connection, "chat-1", "kept")
        with connection.transaction(force_rollback=True):
            submitter.submit(connection, "chat-1", "given up")

    assert [turn["id"] for turn in await turns(database)] == [kept.id]


async def test_on_an_autocommit_connection_the_turn_is_there_at_once(
    application_url: str, submitter: Submitter, database: Database
) -> None:
    with psycopg.connect(application_url, autocommit=True) as connection:
        submitted = submitter.submit(connection, "chat-1", "Hello")

        assert [turn["id"] for turn in await turns(database)] == [submitted.id]


async def test_how_a_connection_reads_rows_and_prepares_statements_does_not_matter(
    application_url: str, submitter: Submitter, database: Database
) -> None:
    with psycopg.connect(
        application_url, row_factory=dict_row, cursor_factory=psycopg.ClientCursor, prepare_threshold=0
    ) as connection:
        connection.execute("SET timezone = 'Asia/Kolkata'")
        connection.execute("SET search_path = public")
        submitted = [submitter.submit(connection, "chat-1", f"{number}") for number in range(3)]
        with connection.pipeline():
            submitted.append(submitter.submit(connection, "chat-1", "in a pipeline"))

    assert [turn["id"] for turn in await turns(database)] == [one.id for one in submitted]
    assert [turn["created_at"] for turn in await turns(database)] == [one.created_at for one in submitted]


async def test_a_scoped_session_is_a_session(application_url: str, submitter: Submitter, database: Database) -> None:
    engine = create_engine(application_url.replace("postgresql:", "postgresql+psycopg:"))
    scope = scoped_session(sessionmaker(engine))
    submitted = submitter.submit(scope, "chat-1", "Hello")
    scope.commit()
    scope.remove()
    engine.dispose()

    assert [turn["id"] for turn in await turns(database)] == [submitted.id]


async def test_what_is_no_connection_is_named(submitter: Submitter, settings: Settings) -> None:
    wrong: Any = Session
    with pytest.raises(TypeError, match="a connection or a session of SQLAlchemy, not type"):
        submitter.submit(wrong, "chat-1", "Hello")


# --- the request


async def test_each_field_of_a_submit_is_in_the_turn(
    application_url: str, submitter: Submitter, database: Database, settings: Settings
) -> None:
    async with by_session(application_url, submitter) as caller:
        await caller.submit(
            "chat-1",
            {"parts": ["a", 1e308, -0.0, "é\u2028"]},
            tenant="acme",
            metadata={"plan": "free"},
            max_attempts=2,
            timeout_seconds=3.5,
            expires_in_seconds=60,
            priority_seconds=90,
            traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        )
        await caller.commit()

    [turn] = await turns(database)
    assert (turn["tenant_id"], turn["metadata"], turn["max_attempts"]) == ("acme", {"plan": "free"}, 2)
    assert (turn["timeout_seconds"], turn["parent_span_id"]) == (3.5, "b7ad6b7169203331")
    assert turn["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert turn["expires_at"] - turn["created_at"] == timedelta(seconds=60)
    assert turn["created_at"] - turn["counts_from"] == timedelta(seconds=90)
    assert await said(database) == [{"parts": ["a", 1e308, -0.0, "é\u2028"]}]


VALUES: list[Any] = [None, True, 0, 10**30, [], {}, [{"type": "text", "text": "é\u2028"}], {"a": [1, {"b": None}]}, '"']


@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_the_input_may_be_any_json_value(
    application_url: str, submitter: Submitter, database: Database, value: Any
) -> None:
    async with by_session(application_url, submitter) as caller:
        await caller.submit("chat-1", value)
        await caller.commit()

    [row] = await database.fetch("SELECT content::text AS text FROM messages", {})
    assert json.loads(row["text"]) == value


async def test_a_scheduled_turn_waits_for_its_time(
    application_url: str, submitter: Submitter, database: Database
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    async with by_psycopg(application_url, submitter) as caller:
        submitted = await caller.submit("chat-1", "later", execute_at=later)
        past = await caller.submit("chat-1", "now", execute_at=datetime.now(UTC) - timedelta(hours=1))
        await caller.commit()

    scheduled, other = await turns(database)
    assert submitted.execute_at == scheduled["execute_at"] == scheduled["queued_at"] == later
    assert (past.execute_at, other["execute_at"]) == (None, None)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"session_id": ".."}, "/session_id: the session must be 1 to 128"),
    ({"session_id": "4915112345678"}, "/session_id: the session must not look like"),
    ({"session_id": "compensation:x"}, "/session_id: a session whose name begins with compensation"),
    ({"tenant": "a b"}, "/tenant: the tenant must be"),
    ({"key": " k"}, "/key: the idempotency key must be 1 to 255"),
    ({"said": ""}, "/input: must not be blank"),
    ({"said": {"at": datetime(2026, 1, 1, tzinfo=UTC)}}, "can't be written as JSON: Object of type datetime"),
    ({"said": "half a pair: \ud800"}, "half of a surrogate pair"),
    ({"said": {"n": float("nan")}}, "NaN"),
    ({"said": "x" * 70_000}, "is longer than 65536 bytes"),
    ({"max_attempts": 0}, "/max_attempts"),
    ({"max_atempts": 2}, "/max_atempts"),
    ({"execute_at": datetime(2026, 1, 1)}, "/execute_at"),  # noqa: DTZ001
    ({"turn_id": uuid4()}, "/turn_id: must begin with"),
    ({"on_busy": "merge"}, "/on_busy: is for clients of the API"),
]


@pytest.mark.parametrize(("options", "fault"), WRONG, ids=[fault for _, fault in WRONG])
async def test_a_request_that_the_api_refuses_is_refused_before_anything_is_sent(
    submitter: Submitter, options: dict[str, Any], fault: str
) -> None:
    given = {"session_id": "chat-1", "said": "Hello", **options}
    # No server is there: the connection would be the next thing to fail.
    nothing: Any = None
    with pytest.raises(InvalidRequestError) as refused:
        submitter.submit(nothing, given.pop("session_id"), given.pop("said"), **given)

    assert fault in str(refused.value)


async def test_an_unknown_queue_and_a_webhook_that_is_not_allowed_are_refused(submitter: Submitter) -> None:
    nothing: Any = None
    with pytest.raises(UnknownQueueError):
        submitter.submit(nothing, "chat-1", "Hello", queue="nope")
    with pytest.raises(WebhookNotAllowedError):
        submitter.submit(nothing, "chat-1", "Hello", webhook_url="https://hooks.example.com/x")


# --- repeats


async def test_a_repeat_with_the_same_key_finds_the_turn_also_in_the_same_transaction(
    each: Open, application_url: str, submitter: Submitter, database: Database
) -> None:
    async with each(application_url, submitter) as caller:
        first = await caller.submit("chat-1", "Hello", key="k")
        second = await caller.submit("chat-1", "Hello", key="k")
        await caller.commit()
        third = await caller.submit("chat-1", "Hello", key="k")
        with pytest.raises(IdempotencyMismatchError):
            await caller.submit("chat-1", "another text", key="k")
        # The transaction goes on.
        other = await caller.submit("chat-1", "another text")
        await caller.commit()

    assert [one.repeated for one in (first, second, third)] == [False, True, True]
    assert {first.id, second.id, third.id, other.id} == {turn["id"] for turn in await turns(database)}
    assert (third.created_at, third.expires_at) == (first.created_at, first.expires_at)
    assert len(await turns(database)) == 2


async def test_the_api_and_a_transaction_find_each_others_turns_by_the_key(
    application_url: str, submitter: Submitter, database: Database, settings: Settings
) -> None:
    nobody: Any = None
    api = Submitting(settings, database, nobody)

    async def over_api(key: str) -> Accepted | SubmissionRefusedError:
        body = b'{"input": "Hello"}'
        now = datetime.now(UTC)
        one = read_submission(settings, "default", "chat-1", body, key=key, now=now, random_bits=uuid4().int)
        [answer] = await api.commit([one])
        return answer

    async with by_session(application_url, submitter) as caller:
        mine = await caller.submit("chat-1", "Hello", key="mine")
        await caller.commit()
        found = await over_api("mine")
        theirs = await over_api("theirs")
        again = await caller.submit("chat-1", "Hello", key="theirs")
        await caller.commit()

    assert isinstance(found, Accepted)
    assert isinstance(theirs, Accepted)
    assert (found.turn_id, found.replayed) == (mine.id, True)
    assert (again.id, again.repeated) == (theirs.turn_id, True)


def chosen() -> UUID:
    return UUID(chosen_prefix("default") + uuid4().hex[12:])


async def test_a_chosen_id_names_one_turn(application_url: str, submitter: Submitter, database: Database) -> None:
    turn_id = chosen()
    async with by_session(application_url, submitter) as caller:
        first = await caller.submit("chat-1", "Hello", turn_id=turn_id)
        again = await caller.submit("chat-1", "Hello", turn_id=turn_id)
        with pytest.raises(IdempotencyMismatchError):
            await caller.submit("chat-1", "another text", turn_id=turn_id)
        with pytest.raises(TurnIdTakenError):
            await caller.submit("chat-1", "Hello", turn_id=turn_id, key="k")
        await caller.commit()

    assert (first.id, again.id, again.repeated) == (turn_id, turn_id, True)
    # The refused key is free: nothing was written.
    assert [row["key"] for row in await database.fetch("SELECT key FROM submissions", {})] == [f"turn:{turn_id}"]
    assert len(await turns(database)) == 1


async def test_a_cancel_that_comes_before_its_submit_ends_the_turn(
    application_url: str, submitter: Submitter, database: Database
) -> None:
    turn_id = chosen()
    await cancel_ahead(database, "default", turn_id, CancelReason.USER)
    async with by_psycopg(application_url, submitter) as caller:
        await caller.submit("chat-1", "Hello", turn_id=turn_id)
        await caller.commit()

    [turn] = await turns(database)
    assert (turn["status"], turn["send_at"], turn["seq"], turn["cancel_reason"]) == (
        "CANCELED",
        None,
        None,
        "user",
    )
