"""The tables as SQLAlchemy `MetaData`, with a sentence for each table (`info["doc"]`) and each column (`doc`).

It is the documentation of the status table (`docs/tables.md` is generated from it), and an application imports it to join
`turns` with tables of its own. The tables are in the schema `turnstile`. Where `TURNSTILE_DATABASE_SCHEMA` names another
one, SQLAlchemy's option `schema_translate_map` replaces the name:
`engine.execution_options(schema_translate_map={"turnstile": "other"})`.

Migrations define the tables; this file describes them. A test compares the two: names, types, nullability, defaults,
keys, indexes and check constraints. Sequences, functions, triggers and storage parameters are only in the migrations.

Workers do not import this file when they start: SQLAlchemy would make each start slower.
"""

from functools import partial
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TextClause,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSON, JSONB, TIMESTAMP
from sqlalchemy.schema import SchemaItem

SCHEMA = "turnstile"
METADATA = MetaData(schema=SCHEMA)

TIME = TIMESTAMP(timezone=True)
NOW = "clock_timestamp()"


def _table(name: str, doc: str, *parts: SchemaItem) -> Table:
    return Table(name, METADATA, *parts, info={"doc": doc})


def _column(
    name: str, kind: Any, doc: str, default: str | None = None, *, key: bool = False, null: bool = False
) -> Column[Any]:
    server_default = None if default is None else text(default)
    return Column(name, kind, primary_key=key, nullable=null, server_default=server_default, doc=doc)


_key = partial(_column, key=True)
_optional = partial(_column, null=True)


def _where(name: str, *columns: str | TextClause, where: str, unique: bool = False) -> Index:
    """An index of the rows that meet a condition."""
    return Index(name, *columns, unique=unique, postgresql_where=text(where))


_TO_TAKE_OVER = "(status || '') = 'RUNNING' AND send_at IS NOT NULL OR (status || '') = 'PENDING' AND crashes > 0"
_AHEAD = "(status || '') = 'PENDING' AND seq IS NOT NULL AND counts_from IS NOT NULL"

sessions = _table(
    "sessions",
    "One row for each session. It stays while the session has a turn, also one in the archive.",
    _key("tenant_id", Text, "The tenant that owns the session."),
    _key("session_id", Text, "The id that clients chose for the session."),
    _column("last_seq", BigInteger, "The `seq` of its last turn; archived turns count.", "0"),
    _optional(
        "halted_by",
        Uuid,
        "What halts it: a FAILED turn, until an operator decides, or its erasure. No turn of it begins.",
    ),
    _column("created_at", TIME, "When the first turn was submitted to it.", NOW),
    _column("updated_at", TIME, "When a submit, a redrive or a halt last changed this row.", NOW),
    _where("sessions_halted", "halted_by", where="halted_by IS NOT NULL"),
)

turns = _table(
    "turns",
    "The status table: one row for each turn, from its submit until it is deleted or archived.",
    _key("id", Uuid, "The turn's id."),
    _column("tenant_id", Text, "The tenant that owns the turn."),
    _column("session_id", Text, "Its session."),
    _optional("seq", BigInteger, "Its place in the session. NULL while it is scheduled, or if it never got a place."),
    _column("queue", Text, "The declared name of the queue that its wake-ups go to."),
    _column("status", Text, "PENDING, RUNNING, SUCCEEDED, FAILED or CANCELED.", "'PENDING'::text"),
    _column("attempt", Integer, "The attempts so far. A snooze, a join or a hand-back takes its attempt back.", "0"),
    _column("failures", Integer, "The attempts that the handler failed.", "0"),
    _column("crashes", Integer, "The attempts whose worker was lost, since the last one that the handler ended.", "0"),
    _optional("max_attempts", Integer, "How many failures end the turn. NULL: as the handler says."),
    _column("generation", Integer, "1, and one more with each redrive or retry by an operator.", "1"),
    _column("fence", BigInteger, "Rises with each claim: a write with an older one changes nothing. 0: none yet.", "0"),
    _optional("claim_id", Uuid, "The id that its worker gave to the last claim."),
    _optional("lease_until", TIME, "Until when the claim of a RUNNING turn is valid. The heartbeat renews it."),
    _optional("worker_id", Text, "The worker of the last claim."),
    _optional("execute_at", TIME, "The turn may not be claimed before: it is scheduled, or waits for its retry."),
    _optional("send_at", TIME, "When a relay sends its next wake-up, or its dead letter. NULL: nothing is owed."),
    _column("sends", Integer, "The wake-ups that relays have sent since its last settle.", "0"),
    _column("expires_at", TIME, "No retry and no snooze begins after this time, and a join ends."),
    _optional("timeout_seconds", Double, "How long an attempt may take. NULL: as the handler says."),
    _optional("cancel_requested_at", TIME, "When somebody asked for its cancel."),
    _optional("cancel_reason", Text, "Who asked: `user`, `operator` or `parent`."),
    _optional("error_class", Text, "The name of the last error's exception, or a word such as `crash_loop`."),
    _optional("error", Text, "The text of the last error, or its seal."),
    _optional("dead_lettered_at", TIME, "When the dead letter of the FAILED turn was sent."),
    _optional("dropped_at", TIME, "When an operator gave the FAILED turn up (`turnstile dlq drop`)."),
    _optional("dropped_by", Text, "That operator."),
    _column("trace_id", Text, "The trace of its present generation: 32 hex digits (W3C)."),
    _column("span_id", Text, "Its own span in the trace: 16 hex digits."),
    _optional("parent_span_id", Text, "The span that caused it, as its client or its parent gave it."),
    _optional("parent_turn_id", Uuid, "The turn whose child or compensation it is."),
    _column("metadata", JSON, "The object that its submit gave.", "'{}'::json"),
    _column("created_at", TIME, "When it was submitted.", NOW),
    _column("queued_at", TIME, "When it began to wait: its submit, its schedule or its redrive; not its retry.", NOW),
    _optional("first_started_at", TIME, "When its first attempt of the generation started."),
    _optional("started_at", TIME, "When its present or last attempt started."),
    _optional("finished_at", TIME, "When it became SUCCEEDED, FAILED or CANCELED."),
    _column("kind", Text, "`turn`, or `compensation`: what follows a turn that finally failed.", "'turn'::text"),
    _optional("child_key", Text, "The key of the call by which its parent started it."),
    _optional("joining", ARRAY(Uuid), "The children that it waits for at present."),
    _optional("join_policy", Text, "`all` or `any` of them."),
    _optional("webhook_url", Text, "Where its end is posted to."),
    _optional("counts_from", TIME, "Since when it counts as waiting, with its head start. NULL: it has none."),
    CheckConstraint("status IN ('PENDING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED')", name="turns_status_known"),
    CheckConstraint("kind IN ('turn', 'compensation')", name="turns_kind_known"),
    CheckConstraint("(status = 'RUNNING') = (lease_until IS NOT NULL)", name="turns_lease_while_running"),
    CheckConstraint("(status IN ('PENDING', 'RUNNING')) = (finished_at IS NULL)", name="turns_finished_when_ended"),
    CheckConstraint("status <> 'PENDING' OR send_at IS NOT NULL", name="turns_pending_has_send_at"),
    CheckConstraint("status <> 'RUNNING' OR seq IS NOT NULL", name="turns_running_has_seq"),
    Index("turns_session_seq", "tenant_id", "session_id", "seq", unique=True),
    _where("turns_running", "tenant_id", "session_id", where="status = 'RUNNING'", unique=True),
    _where(
        "turns_open", "tenant_id", "session_id", "seq", where="status IN ('PENDING', 'RUNNING') AND seq IS NOT NULL"
    ),
    _where("turns_send_at", "queue", "send_at", where="send_at IS NOT NULL"),
    _where("turns_scheduled", "queue", "send_at", where="seq IS NULL AND status = 'PENDING'"),
    _where("turns_scheduled_of", "tenant_id", "session_id", where="seq IS NULL AND (status || '') = 'PENDING'"),
    _where("turns_failed", "queue", "id", where="status = 'FAILED'"),
    _where("turns_failed_at", "queue", "finished_at", where="(status || '') = 'FAILED' AND dropped_at IS NULL"),
    _where("turns_waiting", "queue", text("coalesce(execute_at, created_at)"), where="(status || '') = 'PENDING'"),
    _where("turns_to_take_over", "queue", "crashes", "id", where=_TO_TAKE_OVER),
    _where("turns_ahead", "queue", "counts_from", where=_AHEAD),
    _where("turns_finished_at", "queue", "finished_at", where="finished_at IS NOT NULL"),
    Index("turns_trace_id", "trace_id"),
    _where("turns_parent", "parent_turn_id", where="parent_turn_id IS NOT NULL"),
    _where("turns_joining", "id", where="joining IS NOT NULL"),
    Index("turns_tenant_created", "tenant_id", "created_at", "id"),
)

messages = _table(
    "messages",
    "The inputs and the reply of each turn.",
    _key("turn_id", Uuid, "The turn."),
    _key("ordinal", Integer, "The place in the turn, from 0: first the inputs, then the reply."),
    _column("role", Text, "`user` (an input) or `assistant` (the reply)."),
    _column("kind", Text, "`message`, or `partial`: what a stopped turn had emitted.", "'message'::text"),
    _column("content", JSON, "The content as it was given, or [its seal](sealing.md)."),
    _column("created_at", TIME, "When it was stored.", NOW),
    CheckConstraint("role IN ('user', 'assistant')", name="messages_role_known"),
)

turn_values = _table(
    "turn_values",
    "The results that `ctx.once` recorded. A retry or a redrive of the turn finds them.",
    _key("turn_id", Uuid, "The turn."),
    _key("key", Text, "The key that the handler gave."),
    _column("value", JSON, "The result, or its seal."),
    _column("fence", BigInteger, "The fence of the claim that recorded it."),
    _column("created_at", TIME, "When it was recorded.", NOW),
)

turn_attempts = _table(
    "turn_attempts",
    "The ended attempts of each turn, of all generations. An attempt under way is only in the turn's row.",
    _key("turn_id", Uuid, "The turn."),
    _key("attempt", Integer, "Its number in the generation. An attempt that was taken back shares it with the next."),
    _key("fence", BigInteger, "The fence of its claim; orders the attempts of a turn."),
    _column("generation", Integer, "The turn's generation."),
    _optional("worker_id", Text, "The worker that claimed it."),
    _column("release", Text, "The handler's release, as its worker named it; empty: it named none.", "''::text"),
    _optional("due_at", TIME, "When it could begin: the turn's `queued_at`, or the end of the pause before it."),
    _optional("started_at", TIME, "When it was claimed."),
    _column("finished_at", TIME, "When it ended; of a lost attempt, when the loss was recorded.", NOW),
    _column("outcome", Text, "succeeded, failed, retried, snoozed, canceled, released, joined or lost."),
    _optional("error_class", Text, "The class of its error."),
    _optional("error", Text, "Its error, or the reason of a snooze or a hand-back; or its seal."),
    _optional("traceback", Text, "Where the handler raised, without the error's text and without values; or its seal."),
)

turn_traces = _table(
    "turn_traces",
    "The traces of a turn's earlier generations: each redrive starts another trace.",
    _column("tenant_id", Text, "The turn's tenant."),
    _column("turn_id", Uuid, "The turn."),
    _column("turn_created_at", TIME, "Its `created_at`: an id that a client chose is free again after the archive."),
    _column("generation", Integer, "The generation that the redrive ended."),
    _column("trace_id", Text, "That generation's trace."),
    _column("span_id", Text, "The turn's span in it."),
    _optional("parent_span_id", Text, "The span that caused the turn."),
    _column("ended_at", TIME, "When the redrive ended the generation.", NOW),
    PrimaryKeyConstraint("turn_id", "tenant_id", "turn_created_at", "generation"),
    Index("turn_traces_trace_id", "trace_id"),
)

submissions = _table(
    "submissions",
    "The idempotency keys: a repeated submit finds the first one's answer. Old rows are deleted.",
    _key("tenant_id", Text, "The tenant."),
    _key("key", Text, "The key of the submit."),
    _column("fingerprint", LargeBinary, "A hash of the request: the key with another request is refused."),
    _column("turn_id", Uuid, "The turn that was submitted."),
    _column("answer", JSONB, "The answer to the submit, without content of messages."),
    _column("created_at", TIME, "When it was submitted.", NOW),
    Index("submissions_created_at", "created_at"),
)

chosen_ids = _table(
    "chosen_ids",
    "The turn ids that clients chose: here a cancel that comes first meets its submit. Old rows are deleted.",
    _key("tenant_id", Text, "The tenant."),
    _key("turn_id", Uuid, "The chosen id."),
    _optional("submitted_at", TIME, "When the turn was submitted. NULL: not yet."),
    _optional("canceled_at", TIME, "When the cancel came, if it came before the submit."),
    _optional("reason", Text, "The reason of the cancel, as in `turns.cancel_reason`."),
    _column("created_at", TIME, "When the first of the two came.", NOW),
    Index("chosen_ids_created_at", "created_at"),
)

webhooks = _table(
    "webhooks",
    "The completion webhooks: one row for each end of a turn that has a `webhook_url`.",
    _key("turn_id", Uuid, "The turn."),
    _key("generation", Integer, "The generation that ended."),
    _column("tenant_id", Text, "The turn's tenant."),
    _column("url", Text, "Where the event is posted to."),
    _column("event", JSON, "The event, as every try posts it."),
    _optional("due_at", TIME, "When the next try is due. NULL: it was delivered or given up."),
    _column("tries", Integer, "The tries so far.", "0"),
    _optional("delivered_at", TIME, "When the receiver accepted it."),
    _optional("error", Text, "Why the last try failed."),
    _column("created_at", TIME, "When the turn ended.", NOW),
    _where("webhooks_due_at", "due_at", where="due_at IS NOT NULL"),
)

webhook_secrets = _table(
    "webhook_secrets",
    "Which of a tenant's webhook secrets sign. No secret is here. A tenant without rows has the first.",
    _key("tenant_id", Text, "The tenant."),
    _key("number", Integer, "The secret's number. A rotation takes the next."),
    _optional("signs_until", TIME, "When it ends, because another one has replaced it. NULL: it is the newest."),
    _column("created_at", TIME, "When it began to sign; of the first secret, when the second replaced it.", NOW),
)

memory_items = _table(
    "memory_items",
    "The durable items of the working memory (`ctx.memory`). A deleted item stays for a while, without content.",
    _key("tenant_id", Text, "The tenant."),
    _key("session_id", Text, "The session."),
    _key("kind", Text, "The item's kind."),
    _key("key", Text, "The item's key."),
    _optional("content", JSON, "Its value and its metadata, in a list; or its seal. NULL: it was deleted."),
    _optional("context", Text, "The context that the handler gave it."),
    _column("priority", Integer, "From 1 to 10."),
    _column("tags", ARRAY(Text), "Its tags."),
    _column("version", BigInteger, "Rises with each write."),
    _column("write_id", Uuid, "The id of the last write: a repeated write finds itself."),
    _column("fence", BigInteger, "The fence of the claim that wrote it."),
    _column("created_at", TIME, "When it was first written."),
    _column("updated_at", TIME, "When it was last written or deleted."),
    _column("expires_at", TIME, "From then on it is not read, and may be deleted."),
    Index("memory_items_expires_at", "expires_at"),
)

workers = _table(
    "workers",
    "The workers that run, one row for each process. The heartbeat writes it: times and states were true at `seen_at`.",
    _key("worker_id", Text, "The worker's id."),
    _column("queue", Text, "The queue that it works on."),
    _column("host", Text, "Its host."),
    _column("pid", Integer, "Its process id there."),
    _column("version", Text, "Turnstile's version.", "''::text"),
    _column("release", Text, "The handler's release; empty: none was named.", "''::text"),
    _column("slots", Integer, "How many handlers it runs at the same time."),
    _column("busy", Integer, "How many of them run.", "0"),
    _column("queue_latency_seconds", Double, "How long turns wait at present until it claims them.", "0"),
    _column("draining", Boolean, "Whether it is stopping and begins no turn.", "false"),
    _column("deaf_for_seconds", Double, "For how long no receive has returned.", "0"),
    _column("blocked_for_seconds", Double, "For how long a handler has blocked its event loop.", "0"),
    _column("starved_for_seconds", Double, "For how long Postgres has answered its heartbeat and no other call.", "0"),
    _column("unrenewed", ARRAY(Uuid), "Its turns whose rows another transaction locks: no renewal.", "'{}'::uuid[]"),
    _optional("blocked_by", Uuid, "The turn whose handler blocks it, if that is known."),
    _optional(
        "broken_by", Text, "The class of the error in each of its first turns: it takes none. NULL: there is none."
    ),
    _column("lease_seconds", Double, "Its lease: workers may differ.", "30"),
    _column("started_at", TIME, "When it started.", NOW),
    _column("seen_at", TIME, "Its last heartbeat.", NOW),
    _optional("lost_at", TIME, "When a relay found it lost. NULL again once it comes back."),
)

limit_overrides = _table(
    "limit_overrides",
    "What operators have set in place of the declared limits.",
    _key("limit_name", Text, "The declared limit."),
    _column("value", Text, "The value of its key. Empty: all values.", "''::text", key=True),
    _optional("concurrency", Integer, "How many turns may run at a time. NULL: as declared."),
    _optional("rate", Double, "How many turns may begin in a second. NULL: as declared."),
    _optional("burst", Integer, "How many tokens are saved up. NULL: as declared."),
    _column("set_by", Text, "The operator."),
    _optional("reason", Text, "The reason that the operator gave."),
    _column("set_at", TIME, "When it was set.", NOW),
)

paused_queues = _table(
    "paused_queues",
    "The queues that an operator has paused.",
    _key("queue", Text, "The queue."),
    _column("paused_by", Text, "The operator."),
    _optional("reason", Text, "The reason that the operator gave."),
    _column("paused_at", TIME, "When it was paused.", NOW),
)

redrives = _table(
    "redrives",
    "What operators decided about FAILED turns: redrives, retries, skips, drops, and dead letters that were moved back.",
    Column("id", BigInteger, Identity(always=True), primary_key=True, doc="Rises with each record."),
    _optional("queue", Text, "The queue. NULL: all."),
    _column("requested_by", Text, "The operator."),
    _column("filter", JSONB, "What was asked for. `continues`: the row has more turns of that record."),
    _column("matched", Integer, "How many turns met the filter.", "0"),
    _column("turn_ids", ARRAY(Uuid), "The turns that were put back or given up.", "'{}'::uuid[]"),
    _column("sent", Integer, "The wake-ups that SQS accepted.", "0"),
    _column("unsent", Integer, "The wake-ups that a relay had to send.", "0"),
    _column("started_at", TIME, "When the command started.", NOW),
    _optional("finished_at", TIME, "When it ended. NULL: it runs, was broken off or was killed."),
    _optional("outcome", Text, "`finished`, `stopped` (by itself) or `broken_off`. NULL: it runs, or was killed."),
    _optional("reason", Text, "Why it stopped by itself."),
    CheckConstraint("outcome IN ('finished', 'stopped', 'broken_off')", name="redrives_outcome_known"),
)

audit = _table(
    "audit",
    "Who did what (`turnstile audit`). No row has what a user or a handler said. The programs only add rows and read them.",
    Column("id", BigInteger, Identity(always=True), primary_key=True, doc="Rises with each event."),
    _column("kind", Text, "What was done, as [the audit](audit.md) lists it."),
    _column("actor", Text, "Who did it: an operator, a key of the API, or an address."),
    _optional("tenant_id", Text, "The tenant. NULL: it is about none, or about several."),
    _column("subject", Text, "What it was done to, by name or id."),
    _column("counts", JSONB, "How many, by a word such as `turns`.", "'{}'::jsonb"),
    _optional("reason", Text, "Why, as the actor gave it."),
    _column("created_at", TIME, "When it was recorded.", NOW),
    Index("audit_created_at", "created_at"),
)

api_keys = _table(
    "api_keys",
    "The keys of the API's clients. `turnstile key` makes, rotates and revokes them; a row is never deleted.",
    _key("key_id", Text, "The key's first part, which finds it and is no secret."),
    _column("digest", LargeBinary, "SHA-256 of the whole key. The key itself is stored nowhere."),
    _column("tenant_id", Text, "The tenant that its requests belong to."),
    _column("role", Text, "What it may do: `read`, `submit`, `operate` or `admin`, each with those before it."),
    _optional("note", Text, "What it is for, in the operator's words."),
    _column("created_by", Text, "The operator that made it."),
    _column("created_at", TIME, "When it was made.", NOW),
    _optional("expires_at", TIME, "From then on it is refused. NULL: never. A rotation brings it forward."),
    _optional("last_used_at", TIME, "Its last request, to a minute or so. NULL: none yet."),
    _optional("replaced_by", Text, "The key that a rotation put in its place."),
    _optional("revoked_at", TIME, "When it was revoked: it is refused."),
    _optional("revoked_by", Text, "The operator that revoked it."),
    CheckConstraint("role IN ('read', 'submit', 'operate', 'admin')", name="api_keys_role_known"),
    CheckConstraint("octet_length(digest) = 32", name="api_keys_digest_is_sha256"),
)

browser_tokens = _table(
    "browser_tokens",
    "The tokens of pages (`POST /v1/tokens`). Relays delete those that have expired.",
    _key("token_id", Text, "The token's first part, which finds it and is no secret."),
    _column("digest", LargeBinary, "SHA-256 of the whole token. The token itself is stored nowhere."),
    _column("tenant_id", Text, "The tenant that its requests belong to."),
    _column("session_id", Text, "The session that it is for."),
    _column("verbs", ARRAY(Text), "What it may do there: `read`, `submit`, `cancel`."),
    _column(
        "made_by",
        Text,
        "The credential that asked for it. If it is a key that expires or is revoked, so does the token.",
    ),
    _column("expires_at", TIME, "From then on it is refused."),
    Index("browser_tokens_expires_at", "expires_at"),
    CheckConstraint("octet_length(digest) = 32", name="browser_tokens_digest_is_sha256"),
)

archived_turns = _table(
    "archived_turns",
    "The turns that `turnstile archive` or the retention has moved, each with its rows of the other tables as JSON.",
    _key("id", Uuid, "The turn's id. A client may choose it again after the archive."),
    _key("tenant_id", Text, "The tenant."),
    _column("session_id", Text, "The session."),
    _column("queue", Text, "The queue of its wake-ups."),
    _column("trace_id", Text, "The trace of its last generation."),
    _optional("parent_turn_id", Uuid, "The turn whose child or compensation it was."),
    _key("ended_at", TIME, "Its `turns.finished_at`."),
    _column("archived_at", TIME, "When it was moved.", NOW),
    _column("turn", JSON, "The row of `turns`, without its NULLs."),
    _column("messages", JSON, "The rows of `messages`."),
    _column("attempts", JSON, "The rows of `turn_attempts`."),
    _column("recorded_values", JSON, "The rows of `turn_values`."),
    _column("webhooks", JSON, "The rows of `webhooks`."),
    Index("archived_turns_session", "tenant_id", "session_id"),
    Index("archived_turns_trace_id", "trace_id"),
    _where("archived_turns_parent", "parent_turn_id", where="parent_turn_id IS NOT NULL"),
    Index("archived_turns_ended_at", "queue", "ended_at"),
)

erasures = _table(
    "erasures",
    "What is being erased, and what has been (`turnstile erase`). A finished row stays as long as the other records.",
    _key("id", Uuid, "Its id. `sessions.halted_by` has it while the session is being erased."),
    _column("tenant_id", Text, "The tenant."),
    _optional("session_id", Text, "The session. NULL: all sessions of the tenant."),
    _optional("part_of", Uuid, "The erasure that it is a part of. The row of a part is deleted at its end."),
    _column("requested_by", Text, "The operator, or the caller of the API."),
    _column("requested_at", TIME, "When it was requested last.", NOW),
    _column("due_at", TIME, "When a relay goes on with it.", NOW),
    _optional("up_to_seq", BigInteger, "The last turn of the session that is erased. NULL: it has not begun."),
    _optional("reached", Text, "Of a tenant: the last session that became a part of it."),
    _column("turns", BigInteger, "The turns that were deleted so far.", "0"),
    _optional("finished_at", TIME, "When nothing was left. NULL: it is under way."),
    Index(
        "erasures_open",
        "tenant_id",
        text("coalesce(session_id, '')"),
        unique=True,
        postgresql_where=text("finished_at IS NULL"),
    ),
    _where("erasures_due_at", "due_at", where="finished_at IS NULL"),
    _where("erasures_part_of", "part_of", where="part_of IS NOT NULL"),
)

retention = _table(
    "retention",
    "How far the deletion of ended turns has come: one row for each queue, which one relay at a time works on.",
    _key("queue", Text, "The queue."),
    _column(
        "reached",
        TIME,
        "The end of the last turn that was looked at. `-infinity`: all have been.",
        "'-infinity'::timestamptz",
    ),
    _column("due_at", TIME, "When the next statement may begin.", NOW),
)

turnstile_version = _table(
    "turnstile_version",
    "The version of the tables, as alembic keeps it.",
    _column("version_num", String(32), "The last migration that was applied."),
    _column("serves_from", Text, "The oldest version whose programs still work on the tables.", "'0001'::text"),
    PrimaryKeyConstraint("version_num", name="turnstile_version_pkc"),
)
