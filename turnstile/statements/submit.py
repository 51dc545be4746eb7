"""Submit: a turn is recorded PENDING, with its place in the session and its input. One statement for many requests.

Commit first, then send: the row is inserted with `send_at` at the resend deadline. The caller sends the wake-up right
after the commit; if that fails, the relay sends it at the deadline. Normally nothing more is written. A scheduled turn is left to
the relay: its `send_at` is the time it is due, and only then does it get its place.

The primary key of `submissions` decides idempotency (at most one turn per tenant and Idempotency-Key or client-chosen turn id):
one of several equal requests inserts the row, and the others find it. There is no "in progress" state that a crash could
leave behind. A client that chose the id may cancel the turn before its submit arrives. The submit then finds the cancel in
`chosen_ids`, and inserts the turn as CANCELED, without a place in the session.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key, off_index
from turnstile.errors import (
    ChildIdTakenError,
    FirstRequestSealedError,
    IdempotencyMismatchError,
    KeyMissingError,
    ParentSupersededError,
    SubmissionRefusedError,
    TurnIdTakenError,
)
from turnstile.sealing.contents import Contents
from turnstile.sealing.place import INPUT, Place
from turnstile.statements.delete_old_rows import AT_ONCE, FORGET, OLDER
from turnstile.statements.session_head import IS_RUNNING
from turnstile.statements.worker_registry import ALIVE
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.identifiers import ID_RULE, TraceContext, is_valid_id
from turnstile.turn.on_busy import OnBusy
from turnstile.turn.stored_json import encode
from turnstile.turn.wire_format import WakeUp

QUEUE_LATENCY: LiteralString = f"""
    (SELECT least(coalesce(max(w.queue_latency_seconds), 0), 900) FROM workers w
      WHERE w.queue = {{queue}} AND {ALIVE})
"""
"""The queue latency in seconds, 900 at most: the highest of the queue's workers that are alive. A shorter resend deadline would
send useless messages; one of hours would be too late to help."""

ANSWER: LiteralString = """jsonb_build_object('id', {of}.id, 'session_id', {of}.session_id, 'queue', {of}.queue,
        'execute_at', {of}.{execute_at}, 'expires_at', {of}.expires_at, 'created_at', {of}.created_at,
        'trace_id', {of}.trace_id, 'span_id', {of}.span_id, 'parent_span_id', {of}.parent_span_id)"""
"""The result of a submit. Kept in `submissions`: a repeat gets the same result, although the turn's row changes."""

SUBMIT: LiteralString = f"""
WITH r AS MATERIALIZED (
    SELECT * FROM unnest(%(ords)s::int[], %(ids)s::uuid[], %(tenants)s::text[], %(sessions)s::text[], %(queues)s::text[],
                         %(keys)s::text[], %(fingerprints)s::bytea[], %(contents)s::json[], %(execute_ats)s::timestamptz[],
                         %(expires)s::float8[], %(max_attempts)s::int[], %(timeouts)s::float8[], %(metadatas)s::json[],
                         %(trace_ids)s::text[], %(span_ids)s::text[], %(parent_span_ids)s::text[], %(webhook_urls)s::text[],
                         %(chosens)s::bool[], %(parents)s::uuid[], %(parent_fences)s::bigint[], %(child_keys)s::text[],
                         %(replaces)s::uuid[], %(head_starts)s::float8[])
        r (ord, id, tenant_id, session_id, queue, key, fingerprint, content, execute_at, expires_in, max_attempts,
           timeout_seconds, metadata, trace_id, span_id, parent_span_id, webhook_url, chosen, parent_turn_id, parent_fence,
           child_key, replaces, head_start)
), timed AS MATERIALIZED (
    SELECT r.*, l.later, coalesce(l.later, now()) + make_interval(secs => r.expires_in) AS expires_at, now() AS created_at
      FROM r CROSS JOIN LATERAL (SELECT CASE WHEN r.execute_at > now() THEN r.execute_at END AS later) l
), free AS MATERIALIZED (
    -- Clients choose ids: one may be in the table already, or twice in this batch.
    SELECT * FROM timed WHERE NOT EXISTS (SELECT FROM turns t WHERE {by_key("t.id", "timed.id")})
       AND NOT EXISTS (SELECT FROM timed e WHERE e.id = timed.id AND e.ord < timed.ord)
       -- A parent whose claim has ended starts no child.
       AND (parent_fence IS NULL OR EXISTS (
            SELECT FROM turns t WHERE {by_key("t.id", "timed.parent_turn_id")} AND t.fence = timed.parent_fence AND {IS_RUNNING}))
), accepted AS (
    INSERT INTO submissions (tenant_id, key, fingerprint, turn_id, answer)
    SELECT DISTINCT ON (tenant_id, key) tenant_id, key, fingerprint, id, {ANSWER.format(of="free", execute_at="later")}
      FROM free WHERE key IS NOT NULL ORDER BY tenant_id, key, ord
    ON CONFLICT DO NOTHING RETURNING turn_id
), fresh AS MATERIALIZED (
    SELECT free.* FROM free WHERE key IS NULL OR EXISTS (SELECT FROM accepted a WHERE a.turn_id = free.id)
), met AS (
    -- If the client chose the id, its cancel may have come first: the second of the two finds the other in this row.
    INSERT INTO chosen_ids AS c (tenant_id, turn_id, submitted_at)
    SELECT tenant_id, id, clock_timestamp() FROM fresh WHERE chosen ORDER BY tenant_id, id
    ON CONFLICT (tenant_id, turn_id) DO UPDATE SET submitted_at = coalesce(c.submitted_at, excluded.submitted_at)
    RETURNING c.turn_id, c.canceled_at, c.reason
), arrived AS MATERIALIZED (
    SELECT f.*, met.canceled_at, met.reason, f.later IS NULL AND met.canceled_at IS NULL AS in_line
      FROM fresh f LEFT JOIN met ON met.turn_id = f.id
), place AS (
    -- Because of the row lock on the session, `seq` is also the order of the commits: no lower seq can appear later.
    INSERT INTO sessions AS s (tenant_id, session_id, last_seq)
    SELECT tenant_id, session_id, count(*) FILTER (WHERE in_line) FROM arrived GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (tenant_id, session_id) DO UPDATE
       SET last_seq = s.last_seq + excluded.last_seq, updated_at = clock_timestamp()
    RETURNING s.tenant_id, s.session_id, s.last_seq
), numbered AS (
    SELECT a.*, CASE WHEN a.in_line
                     THEN p.last_seq - count(*) FILTER (WHERE a.in_line) OVER session
                          + row_number() OVER (PARTITION BY a.tenant_id, a.session_id, a.in_line ORDER BY a.ord)
                END AS seq
      FROM arrived a JOIN place p USING (tenant_id, session_id)
    WINDOW session AS (PARTITION BY a.tenant_id, a.session_id)
), lost AS MATERIALIZED (
    -- After the sessions (lock order). A redrive of the lost child comes before this and is seen, or waits and then sees `born`.
    SELECT n.id FROM numbered n JOIN turns t ON {by_key("t.id", "n.replaces")}
     WHERE {off_index("t.status")} IN ('FAILED', 'CANCELED') ORDER BY n.replaces FOR NO KEY UPDATE OF t
), born AS (
    INSERT INTO turns (id, tenant_id, session_id, seq, queue, execute_at, send_at, expires_at, max_attempts,
                       timeout_seconds, metadata, trace_id, span_id, parent_span_id, created_at, webhook_url,
                       parent_turn_id, child_key, queued_at, counts_from, status, finished_at, cancel_requested_at, cancel_reason)
    SELECT n.id, n.tenant_id, n.session_id, n.seq, n.queue, n.later,
           CASE WHEN n.canceled_at IS NULL
                THEN coalesce(n.later,
                              now() + make_interval(secs =>
                                  greatest(%(resend_after)s, 2 * {QUEUE_LATENCY.format(queue="n.queue")}))) END,
           n.expires_at, n.max_attempts, n.timeout_seconds, n.metadata, n.trace_id, n.span_id, n.parent_span_id, n.created_at,
           n.webhook_url, n.parent_turn_id, n.child_key, coalesce(n.later, n.created_at),
           coalesce(n.later, n.created_at) - make_interval(secs => n.head_start),
           CASE WHEN n.canceled_at IS NULL THEN 'PENDING' ELSE 'CANCELED' END,
           CASE WHEN n.canceled_at IS NOT NULL THEN clock_timestamp() END, n.canceled_at, n.reason
      FROM numbered n WHERE n.replaces IS NULL OR EXISTS (SELECT FROM lost l WHERE l.id = n.id) ORDER BY n.id
    RETURNING id
), said AS (
    INSERT INTO messages (turn_id, ordinal, role, content)
    SELECT n.id, 0, 'user', n.content FROM numbered n JOIN born USING (id)
)
SELECT n.ord, {ANSWER.format(of="n", execute_at="later")} AS answer, n.canceled_at IS NULL AS wake
  FROM numbered n JOIN born USING (id)
"""

# A separate statement: the snapshot of SUBMIT lacks the row that an equal request committed meanwhile. Without a key the row of
# the id is our own only if it is of the same tenant, and of the same call of the same parent.
READ_SUBMISSIONS: LiteralString = f"""
SELECT r.ord, s.fingerprint, coalesce(s.answer, {ANSWER.format(of="t", execute_at="execute_at")}) AS answer,
       s.key IS NOT NULL OR (t.tenant_id, t.parent_turn_id, t.child_key)
                            IS NOT DISTINCT FROM (r.tenant_id, r.parent_turn_id, r.child_key) AS ours
  FROM unnest(%(ords)s::int[], %(tenants)s::text[], %(keys)s::text[], %(ids)s::uuid[], %(parents)s::uuid[],
              %(child_keys)s::text[]) r (ord, tenant_id, key, id, parent_turn_id, child_key)
  LEFT JOIN submissions s ON {by_key("s.tenant_id", "r.tenant_id")} AND s.key = r.key
  LEFT JOIN turns t ON r.key IS NULL AND {by_key("t.id", "r.id")}
 WHERE s.key IS NOT NULL OR t.id IS NOT NULL
"""

FORGET_SUBMISSIONS: LiteralString = FORGET.format(table="submissions", over=OLDER, by="created_at")


@dataclass(frozen=True, slots=True)
class ParentClaim:
    """The claim under which a turn starts a child, and the key of the call."""

    turn_id: UUID
    fence: int
    child_key: str
    replaces: UUID | None = None
    """The lost child of this call. The new one is recorded only while that one is FAILED or CANCELED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A request to answer `content`, already validated. A repeat is recognised by `key`, if there is one.

    Raises ValueError for a tenant or session that no message may name: such a turn could be recorded, but never woken.
    """

    turn_id: UUID
    tenant_id: str
    session_id: str
    queue: str
    content: Any
    fingerprint: bytes
    trace: TraceContext
    key: str | None = None
    chosen: bool = False
    """Whether the client chose `turn_id`. It may then have cancelled the turn before this submit."""
    execute_at: datetime | None = None
    expires_in_seconds: float = 900.0
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    metadata: Mapping[str, Any] | None = None
    webhook_url: str | None = None
    """Where to report the turn's end. Already validated."""
    priority_seconds: float = 0.0
    """The turn is ordered among the sessions as if it had been submitted so much earlier (`statements.turns_ahead`)."""
    parent: ParentClaim | None = None
    on_busy: OnBusy = OnBusy.ENQUEUE
    """What `submit_on_busy` does if the session is busy. `submit` always enqueues."""

    def __post_init__(self) -> None:
        if not (is_valid_id(self.tenant_id) and is_valid_id(self.session_id)):
            raise ValueError(f"tenant_id and session_id must each be {ID_RULE}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The turn is in the table. `replayed`: an earlier, equal request made it."""

    turn_id: UUID
    session_id: str
    queue: str
    execute_at: datetime | None
    """When it is scheduled for; None if it is due at once."""
    expires_at: datetime
    created_at: datetime
    trace: TraceContext
    replayed: bool
    wake: bool
    """Whether to send a wake-up now: not for a scheduled turn, nor for a turn whose wake-up an earlier request sent."""
    merged: bool = False
    """The input was added to this turn, which an earlier request had made."""

    def message(self, tenant_id: str) -> OutgoingMessage:
        return OutgoingMessage(WakeUp(tenant_id, self.session_id, self.turn_id), self.trace.traceparent)


async def submit(
    database: Database, submissions: Sequence[Submission], *, resend_seconds: float
) -> list[Accepted | SubmissionRefusedError]:
    """Records many turns; returns the results in the order of `submissions`. A refusal is returned, so that it fails alone.

    Raises DatabaseUnavailableError. The call may then be repeated with the same submissions: it finds the turns that the lost
    call committed by their ids, and returns them as created.
    """
    rows = await database.fetch(SUBMIT, submit_parameters(submissions, resend_seconds, database.contents))
    created = {row["ord"]: row for row in rows}
    others = [place for place in range(len(submissions)) if place not in created]
    stored = await _read(database, submissions, others) if others else {}
    return [
        accepted(created[place]["answer"], replayed=False, wake=created[place]["wake"])
        if place in created
        else repeated(database.contents, submission, stored.get(place))
        for place, submission in enumerate(submissions)
    ]


async def is_recorded(database: Database, submission: Submission) -> bool:
    """Whether an earlier request had the same key, or the same turn id. Raises DatabaseUnavailableError."""
    return submission.key is not None and bool(await _read(database, [submission], [0]))


async def forget_submissions(database: Database, older_than_seconds: float) -> bool:
    """Deletes the oldest of the idempotency records older than `older_than_seconds`. True if there may be more of them."""
    [row] = await database.fetch(FORGET_SUBMISSIONS, {"older_than": older_than_seconds})
    return bool(row["gone"] == AT_ONCE)


async def _read(database: Database, submissions: Sequence[Submission], places: Sequence[int]) -> dict[int, DictRow]:
    parameters = submit_parameters([submissions[place] for place in places], 0.0, database.contents)
    return {row["ord"]: row for row in await database.fetch(READ_SUBMISSIONS, {**parameters, "ords": places})}


def repeated(contents: Contents, submission: Submission, row: DictRow | None) -> Accepted | SubmissionRefusedError:
    """The result of a request that made no turn: `row` is of READ_SUBMISSIONS."""
    if submission.parent is not None:
        if row is None:
            return ParentSupersededError(submission.parent.turn_id)
        if not row["ours"]:
            return ChildIdTakenError(submission.parent.turn_id, submission.turn_id)
    if row is None or not row["ours"]:
        return TurnIdTakenError(submission.turn_id)
    if submission.key is None:
        # No client may choose an id like ours: this is our own commit, whose response was lost.
        return accepted(row["answer"], replayed=False, wake=True)
    try:
        if not contents.is_fingerprint(row["fingerprint"], submission.fingerprint, submission.tenant_id):
            return IdempotencyMismatchError(submission.key.partition(":")[2])
    except KeyMissingError as error:
        return FirstRequestSealedError(error)
    # The same id: perhaps our own commit, whose wake-up was never sent. An extra wake-up does no harm.
    return accepted(row["answer"], replayed=True, wake=row["answer"]["id"] == str(submission.turn_id))


def accepted(answer: Mapping[str, Any], *, replayed: bool, wake: bool) -> Accepted:
    """From an ANSWER."""
    execute_at = answer["execute_at"] and datetime.fromisoformat(answer["execute_at"])
    return Accepted(
        turn_id=UUID(answer["id"]),
        session_id=answer["session_id"],
        queue=answer["queue"],
        execute_at=execute_at,
        expires_at=datetime.fromisoformat(answer["expires_at"]),
        created_at=datetime.fromisoformat(answer["created_at"]),
        trace=TraceContext(answer["trace_id"], answer["span_id"], answer["parent_span_id"]),
        replayed=replayed,
        wake=wake and execute_at is None,
    )


def seal_input(contents: Contents, submission: Submission, turn_id: UUID) -> str:
    """The input as `messages` stores it: of the turn that it becomes an input of."""
    place = Place(submission.tenant_id, submission.session_id, turn_id, INPUT)
    return contents.seal_json(encode(submission.content), place)


def submit_parameters(submissions: Sequence[Submission], resend_seconds: float, contents: Contents) -> dict[str, Any]:
    parents = [submission.parent for submission in submissions]
    return {
        "ords": list(range(len(submissions))),
        "ids": [submission.turn_id for submission in submissions],
        "tenants": [submission.tenant_id for submission in submissions],
        "sessions": [submission.session_id for submission in submissions],
        "queues": [submission.queue for submission in submissions],
        "keys": [submission.key for submission in submissions],
        "fingerprints": [
            contents.hide_fingerprint(submission.fingerprint, submission.tenant_id) for submission in submissions
        ],
        "contents": [seal_input(contents, submission, submission.turn_id) for submission in submissions],
        "execute_ats": [submission.execute_at for submission in submissions],
        "expires": [submission.expires_in_seconds for submission in submissions],
        "max_attempts": [submission.max_attempts for submission in submissions],
        "timeouts": [submission.timeout_seconds for submission in submissions],
        "metadatas": [encode(submission.metadata or {}) for submission in submissions],
        "trace_ids": [submission.trace.trace_id for submission in submissions],
        "span_ids": [submission.trace.span_id for submission in submissions],
        "parent_span_ids": [submission.trace.parent_span_id for submission in submissions],
        "webhook_urls": [submission.webhook_url for submission in submissions],
        "chosens": [submission.chosen for submission in submissions],
        "parents": [parent and parent.turn_id for parent in parents],
        "parent_fences": [parent and parent.fence for parent in parents],
        "child_keys": [parent and parent.child_key for parent in parents],
        "replaces": [parent and parent.replaces for parent in parents],
        # None, not 0: only a turn with a head start is in the index of those.
        "head_starts": [submission.priority_seconds or None for submission in submissions],
        "resend_after": resend_seconds,
    }
