"""The commit of a submit: which failures are tried again."""

from typing import Any, cast

import psycopg
import pytest

import turnstile.submission.commit_then_wake
from tests.support.claims import submit_turns
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import ConnectionsBusyError, DatabaseUnavailableError, RowLockedError, UnstorableContentError
from turnstile.statements.submit import Accepted, submit
from turnstile.submission.commit_then_wake import Submitting
from turnstile.turn.on_busy import OnBusy


async def test_a_batch_that_collides_with_another_call_is_tried_once_more(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [make_submission(settings.queue, session) for session in "ab"]

    async def collide(given: Database, submissions: Any, **named: Any) -> Any:
        # The other call commits first, and the next call of this one finds its row.
        monkeypatch.setattr(turnstile.submission.commit_then_wake, "submit", submit)
        await submit(given, submissions[:1], **named)
        raise psycopg.errors.UniqueViolation

    monkeypatch.setattr(turnstile.submission.commit_then_wake, "submit", collide)

    answers = await Submitting(settings, database, cast("Any", None)).commit(turns)

    assert [answer.turn_id for answer in answers if isinstance(answer, Accepted)] == [turn.turn_id for turn in turns]


async def test_a_call_that_has_waited_for_a_locked_session_is_not_repeated(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit_turns(database, settings, "one")
    calls: list[int] = []

    async def count(given: Database, submissions: Any, **named: Any) -> Any:
        calls.append(len(submissions))
        return await submit(given, submissions, **named)

    monkeypatch.setattr(turnstile.submission.commit_then_wake, "submit", count)
    with psycopg.connect(settings.database_url) as other:
        other.execute("SELECT FROM sessions FOR NO KEY UPDATE")
        async with Database(settings.database, "test", size=1, lock_timeout_seconds=0.1) as impatient:
            with pytest.raises(RowLockedError):
                await Submitting(settings, impatient, cast("Any", None)).commit([make_submission(settings.queue)])

    assert calls == [1]


@pytest.mark.parametrize(
    ("met", "raised"),
    [
        ([ConnectionsBusyError("busy")], ConnectionsBusyError),
        # The lost call may have committed: its turn must not be called refused.
        ([DatabaseUnavailableError("lost"), ConnectionsBusyError("busy")], DatabaseUnavailableError),
    ],
    ids=["at first", "after a lost call"],
)
async def test_a_submit_without_a_connection_is_not_repeated(
    settings: Settings,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    met: list[Exception],
    raised: type[Exception],
) -> None:
    left = list(met)

    async def fail(*_: Any, **__: Any) -> Any:
        raise left.pop(0)

    monkeypatch.setattr(turnstile.submission.commit_then_wake, "submit", fail)
    with pytest.raises(DatabaseUnavailableError) as refused:
        await Submitting(settings, database, cast("Any", None)).commit([make_submission(settings.queue)])

    assert type(refused.value) is raised
    assert not left


@pytest.mark.parametrize("on_busy", [OnBusy.ENQUEUE, OnBusy.REJECT])
async def test_text_that_has_no_encoding_is_refused(settings: Settings, database: Database, on_busy: OnBusy) -> None:
    submitting = Submitting(settings, database, cast("Any", None))
    unencodable = make_submission(settings.queue, content="half a pair: \ud800", on_busy=on_busy)

    with pytest.raises(UnstorableContentError):
        await (
            submitting.commit([unencodable]) if on_busy is OnBusy.ENQUEUE else submitting.commit_on_busy(unencodable)
        )
