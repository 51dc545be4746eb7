"""Submits without the API, for batch jobs with database credentials: in transactions of their own, as an application does.

It has the same rules and fingerprints as the API, so both recognise a repeat of the same request. Batches run one after the
other, so the turns of a session keep their order. A relay gives them their places and sends their wake-ups.
"""

import codecs
import json
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
from pydantic_core import from_json

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import (
    DatabaseUnavailableError,
    RowLockedError,
    SubmissionRefusedError,
    UnknownQueueError,
    UnstorableContentError,
    WebhookNotAllowedError,
)
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.output import Progress, plural
from turnstile.statements.submit import Accepted, Submission
from turnstile.statements.submit_in_transaction import SUBMIT_TURN, read_answer, request_of
from turnstile.submission.names import find_key_fault, find_session_fault, find_tenant_fault
from turnstile.submission.turn_request import (
    RANDOM_BITS,
    InvalidRequestError,
    read_submission,
    refuse_repeated_members,
)
from turnstile.telemetry.tracing import Traces
from turnstile.turn.on_busy import OnBusy

BATCH = 100


@dataclass(slots=True, kw_only=True)
class DirectResult:
    """The results of the submissions."""

    turn_ids: list[UUID] = field(default_factory=list)
    replayed: int = 0
    """Turns that had been submitted before, found by idempotency key or turn id."""
    refused: list[dict[str, Any]] = field(default_factory=list)
    unknown: int = 0
    """Turns that are recorded, or are not: the database went away in their commit."""
    left: int = 0
    """Turns that were not submitted, because the database had gone away."""
    broken_off: DatabaseUnavailableError | None = None

    def as_document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "submitted": len(self.turn_ids),
            **{one.name: getattr(self, one.name) for one in fields(self) if one.name != "broken_off"},
        }


def read_lines(
    lines: Iterable[bytes], settings: Settings, tenant_id: str, key_prefix: str | None, *, queue: str | None = None
) -> list[Submission]:
    """The submissions of a file of JSON lines: the API's body plus `session_id` and `idempotency_key`.

    With `key_prefix`, a line without its own key gets one from its line number, so the whole file may be submitted again. `queue`
    is the default for lines without a queue. Raises CommandError with the first bad line, before anything is submitted.
    """
    submissions = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            document = _read_object(line)
            session_id = document.pop("session_id", None)
            key = document.pop("idempotency_key", None)
            if key is None and key_prefix is not None:
                key = f"{key_prefix}:{number}"
            if queue is not None and document.get("queue") is None:
                document["queue"] = queue
            submissions.append(prepare(settings, tenant_id, session_id, document, key))
        except (CommandError, ValueError) as error:
            code = error.code if isinstance(error, CommandError) else ExitCode.USAGE
            raise CommandError(f"line {number}: {error}; nothing was submitted", code) from error
    return submissions


def _read_object(line: bytes) -> dict[str, Any]:
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise CommandError("the file is in UTF-16: write it in UTF-8", ExitCode.USAGE)
    # Some editors and shells begin a file with the mark.
    text = line.removeprefix(codecs.BOM_UTF8)
    try:
        document = from_json(text)
    except ValueError as error:
        # The parser sees one line, and calls it the first.
        raise CommandError(re.sub(r" at line 1 (column \d+)$", r" at \1", str(error)), ExitCode.USAGE) from error
    if isinstance(document, dict):
        refuse_repeated_members(text)
        return document
    raise CommandError(
        'not a JSON object: write one in each line, as {"session_id": "chat-1", "input": "Hello"}', ExitCode.USAGE
    )


def check_session(session_id: Any, *, personal: bool) -> None:
    """Raises CommandError unless clients may submit turns to a session of that name."""
    _refuse(find_session_fault(session_id, personal=personal))


def check_key(key: Any) -> None:
    """Raises CommandError unless the key is valid as an Idempotency-Key header of the API."""
    _refuse(find_key_fault(key))


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise CommandError(fault, ExitCode.USAGE)


def prepare(settings: Settings, tenant_id: str, session_id: Any, body: dict[str, Any], key: Any) -> Submission:
    """Validates one submission as the API does. Raises CommandError."""
    _refuse(find_tenant_fault(tenant_id))
    check_session(session_id, personal=settings.personal_session_ids)
    if key is not None:
        check_key(key)
    try:
        submission = read_submission(
            settings,
            tenant_id,
            session_id,
            json.dumps(body).encode(),
            key=key,
            now=datetime.now(UTC),
            random_bits=secrets.randbits(RANDOM_BITS),
        )
    except InvalidRequestError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    except WebhookNotAllowedError as error:
        raise CommandError(f"webhook_url: {error}", ExitCode.USAGE) from error
    except UnknownQueueError as error:
        raise CommandError(str(error), ExitCode.NOT_FOUND) from error
    if submission.on_busy is not OnBusy.ENQUEUE:
        # The lines of a batch job run in the given order, so a line must not act on the others.
        raise CommandError("on_busy is for clients of the API; --direct always enqueues", ExitCode.USAGE)
    return submission


async def submit_all(database: Database, submissions: Sequence[Submission], traces: Traces = None) -> DirectResult:
    """Submits batch after batch, until all are or the database goes away."""
    result = DirectResult()
    progress = Progress()
    for start in range(0, len(submissions), BATCH):
        began_at = time.time_ns()
        batch = [_with_decision(one, traces) for one in submissions[start : start + BATCH]]
        try:
            answers = await _commit(database, batch)
        except DatabaseUnavailableError as error:
            result.broken_off = error
            # Nothing was done where a row is locked. Otherwise the commit may have been done, and only its answer was lost.
            result.unknown = 0 if isinstance(error, RowLockedError) else len(batch)
            result.left = len(submissions) - start - result.unknown
            break
        for submission, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Accepted):
                result.turn_ids.append(answer.turn_id)
                result.replayed += answer.replayed
                if traces is not None:
                    traces.submitted(
                        submission.trace,
                        answer.trace,
                        began_at,
                        queue=answer.queue,
                        turn_id=answer.turn_id,
                        session_id=answer.session_id,
                    )
            else:
                result.refused.append({"session_id": submission.session_id, "error": str(answer)})
        progress.say(f"{start + len(batch)} of {plural(len(submissions), 'turn')} submitted")
    return result


def _with_decision(submission: Submission, traces: Traces) -> Submission:
    return submission if traces is None else replace(submission, trace=traces.decide(submission.trace))


def what_is_left(result: DirectResult, submissions: Sequence[Submission]) -> str:
    """The line after a submit that broke off: how many turns were not submitted, and what to do."""
    left = f"not submitted: {plural(result.left, 'turn')}"
    if result.unknown:
        left += f"; perhaps submitted: {result.unknown}"
    if all(one.key is not None or one.chosen for one in submissions):
        return f"{left}. The same command again submits each turn once"
    if result.unknown:
        tenant = submissions[0].tenant_id
        left += f": look with turnstile list --tenant {tenant} --limit {result.unknown}"
    return f"{left}. With --idempotency-key, a command can be repeated as it is"


async def _commit(database: Database, batch: Sequence[Submission]) -> Sequence[Accepted | SubmissionRefusedError]:
    """Records the batch in one transaction."""
    try:
        calls = [(SUBMIT_TURN, {"request": request_of(one, database.contents)}) for one in batch]
        found = await database.fetch_pipelined(calls)
    except (psycopg.DataError, psycopg.IntegrityError, UnicodeEncodeError) as error:
        if len(batch) > 1:
            # One by one and in order, so that a bad submission fails alone.
            return [answer for one in batch for answer in await _commit(database, [one])]
        if not isinstance(error, psycopg.IntegrityError):
            return [UnstorableContentError()]
        # Without the error's text: it quotes the client's content.
        return [SubmissionRefusedError(f"the database refuses this submission ({error.sqlstate})")]
    return [_read(row["answer"], one, database) for [row], one in zip(found, batch, strict=True)]


def _read(answer: str | None, submission: Submission, database: Database) -> Accepted | SubmissionRefusedError:
    try:
        return read_answer(answer, submission, database.contents)
    except SubmissionRefusedError as refused:
        return refused
