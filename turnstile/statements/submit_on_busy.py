"""Submit with a policy for a busy session (`turn.on_busy`), in one transaction: it reads the session, decides, acts and records.

The plain submit is one statement for many requests and reads no session state. This one is for the few requests that need it.
Its lock order is that of SUBMIT: the idempotency record, the session, its turns. The second of two equal requests therefore waits
for the first and gets its result. While the session's row is locked, no turn can join the session's line; turns can only leave
it. So the state passed to `decide` stays valid until the commit.

Every request is recorded in `submissions`. One without a key is recorded under its turn id. A call whose response was lost
finds its first result there; without that, a repeated merge would add the input twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, LiteralString, assert_never
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from turnstile.backends.postgres.database import Connection, Database
from turnstile.backends.postgres.placeholders import Parameters
from turnstile.errors import (
    FirstRequestSealedError,
    IdempotencyMismatchError,
    KeyMissingError,
    SessionBusyError,
    TurnIdTakenError,
)
from turnstile.sealing.contents import Contents
from turnstile.statements.cancel import cancel_open
from turnstile.statements.session_head import OPEN_HEAD
from turnstile.statements.submit import (
    ANSWER,
    READ_SUBMISSIONS,
    SUBMIT,
    Accepted,
    Submission,
    accepted,
    seal_input,
    submit_parameters,
)
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.identifiers import turn_id_key
from turnstile.turn.on_busy import LastInLine, Merge, OnBusy, Record, Refuse, SessionState, decide

# An interrupt learns here of the cancel that came before it. SUBMIT would find it too late: after the cancels made for
# it.
TAKE_KEY: LiteralString = """
WITH taken AS (
    INSERT INTO submissions (tenant_id, key, fingerprint, turn_id, answer)
    VALUES (%(tenant)s, %(key)s, %(fingerprint)s, %(id)s, 'null') ON CONFLICT DO NOTHING RETURNING tenant_id, turn_id
), met AS (
    INSERT INTO chosen_ids AS c (tenant_id, turn_id, submitted_at)
    SELECT tenant_id, turn_id, clock_timestamp() FROM taken WHERE %(meets)s
    ON CONFLICT (tenant_id, turn_id) DO UPDATE SET submitted_at = coalesce(c.submitted_at, excluded.submitted_at)
    RETURNING c.canceled_at
)
SELECT EXISTS (SELECT FROM met WHERE canceled_at IS NOT NULL) AS canceled FROM taken
"""

# Creates the row if necessary, so that there is a row to lock: the first two messages of a session may come at once.
LOCK_SESSION: LiteralString = """
INSERT INTO sessions AS s (tenant_id, session_id) VALUES (%(tenant)s, %(session)s)
ON CONFLICT (tenant_id, session_id) DO UPDATE SET updated_at = clock_timestamp()
RETURNING s.halted_by
"""

BUSY_WITH: LiteralString = f"""
WITH session AS (SELECT %(tenant)s::text AS tenant_id, %(session)s::text AS session_id)
SELECT h.id FROM session CROSS JOIN LATERAL ({OPEN_HEAD.format(of="session")}) h
"""

# The lock waits for a claim that is under way, and then sees the turn RUNNING. A later claim skips the locked row and looks
# again; it reads the inputs with a separate statement.
LOCK_LAST: LiteralString = """
SELECT t.id AS turn_id, t.queue, t.status = 'PENDING' AND t.fence = 0 AND t.kind = 'turn' AS untouched,
       said.inputs, said.input_bytes
  FROM turns t CROSS JOIN LATERAL (
       SELECT count(*) AS inputs, coalesce(sum(octet_length(m.content::text)), 0)::bigint AS input_bytes
         FROM messages m WHERE m.turn_id = t.id AND m.role = 'user') said
 WHERE t.id = (SELECT h.id FROM turns h
                WHERE h.tenant_id = %(tenant)s AND h.session_id = %(session)s
                  AND h.seq IS NOT NULL AND h.status IN ('PENDING', 'RUNNING') ORDER BY h.seq DESC LIMIT 1)
   FOR NO KEY UPDATE OF t
"""

ADD_INPUT: LiteralString = f"""
WITH said AS (
    INSERT INTO messages (turn_id, ordinal, role, content)
    SELECT %(id)s::uuid, coalesce(max(m.ordinal), -1) + 1, 'user', %(content)s::json
      FROM messages m WHERE m.turn_id = %(id)s::uuid
)
SELECT {ANSWER.format(of="t", execute_at="execute_at")} AS answer FROM turns t WHERE t.id = %(id)s::uuid
"""

KEEP_ANSWER: LiteralString = """
UPDATE submissions SET turn_id = %(id)s, answer = %(answer)s WHERE tenant_id = %(tenant)s AND key = %(key)s
"""


@dataclass(frozen=True, slots=True)
class OnBusyResult:
    """The result of a submit with a policy, and the turns that it cancelled."""

    answer: Accepted | SessionBusyError
    """A refusal is a value here: it is committed, so that a repeat is refused because of the same turn."""
    asked: tuple[UUID, ...] = ()
    """RUNNING turns that were asked to stop."""
    canceled: tuple[UUID, ...] = ()
    """Turns that were CANCELED at once."""


async def submit_on_busy(
    database: Database,
    submission: Submission,
    *,
    resend_seconds: float,
) -> OnBusyResult:
    """Submits one turn under its policy `on_busy`.

    Raises IdempotencyMismatchError, FirstRequestSealedError or TurnIdTakenError (nothing was done), or
    DatabaseUnavailableError. After the latter the call may be repeated with the same submission.
    """
    key = submission.key or turn_id_key(submission.turn_id)
    whose = {"tenant": submission.tenant_id, "session": submission.session_id, "key": key}
    meets = submission.chosen and submission.on_busy is OnBusy.INTERRUPT
    contents = database.contents
    fingerprint = contents.hide_fingerprint(submission.fingerprint, submission.tenant_id)
    taking = {**whose, "fingerprint": fingerprint, "id": submission.turn_id, "meets": meets}
    async with database.transaction(submission.tenant_id) as connection:
        taken = await _first(connection, TAKE_KEY, taking)
        if taken is None:
            return OnBusyResult(await _replay(connection, contents, submission, key))
        session = await _first(connection, LOCK_SESSION, whose)
        state = await _look(connection, whose, submission.on_busy, None if session is None else session["halted_by"])
        asked: tuple[UUID, ...] = ()
        canceled: tuple[UUID, ...] = ()
        answer: Accepted | SessionBusyError
        kept: dict[str, Any]
        match decide(submission.on_busy, state, submission.queue):
            case Refuse(busy_with):
                answer, kept = SessionBusyError(busy_with), {"busy_with": str(busy_with)}
            case Merge(turn_id):
                kept = {**await _add_input(connection, contents, turn_id, submission), "merged": True}
                answer = _answer(kept, wake=False)
            case Record(interrupting):
                if interrupting and not taken["canceled"]:
                    who = (submission.tenant_id, submission.session_id)
                    canceled, asked = await cancel_open(connection, *who, CancelReason.SUPERSEDED, scheduled=False)
                row = await _record(connection, contents, submission, resend_seconds)
                kept = row["answer"]
                answer = _answer(kept, wake=row["wake"])
            case decision:
                assert_never(decision)
        named = answer.turn_id
        await connection.execute(KEEP_ANSWER, {**whose, "id": named, "answer": Jsonb(kept)})
    return OnBusyResult(answer, asked, canceled)


async def _replay(
    connection: Connection, contents: Contents, submission: Submission, key: str
) -> Accepted | SessionBusyError:
    wanted = submit_parameters([replace(submission, key=key)], 0.0, contents)
    row = await _first(connection, READ_SUBMISSIONS, wanted)
    try:
        if row is None or not contents.is_fingerprint(row["fingerprint"], submission.fingerprint, submission.tenant_id):
            raise IdempotencyMismatchError(key.partition(":")[2])
    except KeyMissingError as error:
        raise FirstRequestSealedError(error) from None
    # Without a key it is our own commit, whose response was lost: no client knows an id that we made.
    return _answer(
        row["answer"], replayed=submission.key is not None, wake=row["answer"].get("id") == str(submission.turn_id)
    )


async def _look(connection: Connection, session: Parameters, on_busy: OnBusy, halted_by: UUID | None) -> SessionState:
    match on_busy:
        case OnBusy.REJECT:
            head = await _first(connection, BUSY_WITH, session)
            return SessionState(busy_with=halted_by if head is None else head["id"])
        case OnBusy.MERGE:
            last = await _first(connection, LOCK_LAST, session)
            return SessionState(last=None if last is None else LastInLine(**last))
        case OnBusy.INTERRUPT | OnBusy.ENQUEUE:
            return SessionState()
        case _:
            assert_never(on_busy)


async def _add_input(
    connection: Connection, contents: Contents, turn_id: UUID, submission: Submission
) -> dict[str, Any]:
    row = await _first(connection, ADD_INPUT, {"id": turn_id, "content": seal_input(contents, submission, turn_id)})
    if row is None:
        raise AssertionError(f"turn {turn_id} is locked and gone")
    answer: dict[str, Any] = row["answer"]
    return answer


async def _record(connection: Connection, contents: Contents, submission: Submission, resend_seconds: float) -> DictRow:
    # Without its key: this transaction has recorded it already.
    parameters = submit_parameters([replace(submission, key=None)], resend_seconds, contents)
    row = await _first(connection, SUBMIT, parameters)
    if row is None:
        # Rolls back the cancels of this submit, too.
        raise TurnIdTakenError(submission.turn_id)
    return row


async def _first(connection: Connection, statement: LiteralString, parameters: Parameters) -> DictRow | None:
    return await (await connection.execute(statement, parameters)).fetchone()


def _answer(kept: Mapping[str, Any], *, wake: bool, replayed: bool = False) -> Accepted | SessionBusyError:
    if "busy_with" in kept:
        return SessionBusyError(UUID(kept["busy_with"]), replayed=replayed)
    merged = kept.get("merged", False)
    return replace(accepted(kept, replayed=replayed, wake=wake and not merged), merged=merged)
