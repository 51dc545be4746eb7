"""The tables, as SQLAlchemy sees them: for alembic to compare with the migrations, and for the cold reads.

No foreign keys: they would lock the parent row on every insert of the hot path, and every row here is written by a
statement that has just seen or made its parent.

What is indexed is all that is looked up by, and nothing else: an index that names a changed column, be it only in its
WHERE clause, makes the update non-HOT. `lease_until` is never indexed, or every heartbeat would write to an index.
"""

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Sequence,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from turnstile.tables.metadata import NOW, Time, metadata
from turnstile.tables.operations import redrives, turn_traces, workers

__all__ = [
    "archived_turns", "chosen_ids", "memory_items", "messages", "metadata",  "redrives", "sessions", "submissions",
    "turn_attempts", "turn_traces", "turn_values", "turns", "webhooks", "workers",
]  # fmt: skip

fence_seq = Sequence("fence_seq", metadata=metadata, data_type=BigInteger)
"""One sequence for all turns: rising is all that a fence needs. It keeps up with the clock (`statements.advance_fences`)."""

memory_version_seq = Sequence("memory_version_seq", metadata=metadata, data_type=BigInteger)
"""Of all durable items: rising, so that no version comes twice for one key. It keeps up with the clock as well."""

sessions = Table(
    "sessions",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("last_seq", BigInteger, nullable=False, server_default="0"),
    Column("halted_by", Uuid),
    Column("created_at", Time, nullable=False, server_default=NOW),
    Column("updated_at", Time, nullable=False, server_default=NOW),
    Column("memory_version", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("tenant_id", "session_id"),
    Index("sessions_halted", "halted_by", postgresql_where=text("halted_by IS NOT NULL")),
)

turns = Table(
    "turns",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("tenant_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("seq", BigInteger),
    Column("queue", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="PENDING"),
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("crashes", Integer, nullable=False, server_default="0"),
    Column("max_attempts", Integer),
    Column("generation", Integer, nullable=False, server_default="1"),
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("claim_id", Uuid),
    Column("lease_until", Time),
    Column("worker_id", Text),
    Column("execute_at", Time),
    Column("send_at", Time),
    Column("sends", Integer, nullable=False, server_default="0"),
    Column("expires_at", Time, nullable=False),
    Column("timeout_seconds", Float),
    Column("cancel_requested_at", Time),
    Column("cancel_reason", Text),
    Column("error_class", Text),
    Column("error", Text),
    Column("dead_lettered_at", Time),
    Column("trace_id", Text, nullable=False),
    Column("span_id", Text, nullable=False),
    Column("parent_span_id", Text),
    Column("parent_turn_id", Uuid),
    Column("kind", Text, nullable=False, server_default="turn"),
    Column("child_key", Text),
    Column("joining", ARRAY(Uuid)),
    Column("join_policy", Text),
    Column("webhook_url", Text),
    Column("metadata", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("created_at", Time, nullable=False, server_default=NOW),
    Column("started_at", Time),
    Column("finished_at", Time),
    CheckConstraint("status IN ('PENDING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED')", name="status_known"),
    CheckConstraint("(status = 'RUNNING') = (lease_until IS NOT NULL)", name="lease_while_running"),
    CheckConstraint("(status IN ('PENDING', 'RUNNING')) = (finished_at IS NULL)", name="finished_when_ended"),
    # Rule 3 of the design, enforced: a PENDING turn is always going to be looked at again.
    CheckConstraint("status <> 'PENDING' OR send_at IS NOT NULL", name="pending_has_send_at"),
    CheckConstraint("status <> 'RUNNING' OR seq IS NOT NULL", name="running_has_seq"),
    CheckConstraint("kind IN ('turn', 'compensation')", name="kind_known"),
    Index("turns_session_seq", "tenant_id", "session_id", "seq", unique=True),
    # One turn at a time per session (L4): this index, not the Redis lock, is what makes it so.
    Index("turns_running", "tenant_id", "session_id", unique=True, postgresql_where=text("status = 'RUNNING'")),
    # The head of a 10,000-turn session.
    Index(
        "turns_open",
        "tenant_id",
        "session_id",
        "seq",
        postgresql_where=text("status IN ('PENDING', 'RUNNING') AND seq IS NOT NULL"),
    ),
    Index("turns_send_at", "queue", "send_at", postgresql_where=text("send_at IS NOT NULL")),
    # What is scheduled and has no place yet: few rows, which the relay would otherwise look for among all that is due.
    Index("turns_scheduled", "queue", "send_at", postgresql_where=text("seq IS NULL AND status = 'PENDING'")),
    # `dlq list` and redrive; its predicate costs nothing extra, every status change is non-HOT already.
    Index("turns_failed", "queue", "id", postgresql_where=text("status = 'FAILED'")),
    # The failures of a queue, the newest first. The predicate is an expression that no other statement has.
    Index("turns_failed_at", "queue", "finished_at", postgresql_where=text("(status || '') = 'FAILED'")),
    # The backlog of a queue, the oldest first. The predicate is an expression, so that no other statement's plan takes it.
    Index(
        "turns_waiting",
        "queue",
        text("(coalesce(execute_at, created_at))"),
        postgresql_where=text("(status || '') = 'PENDING'"),
    ),
    # What workers take over: marked as lost, or waiting with a crash on its record. Nearly empty.
    Index(
        "turns_to_recover",
        "queue",
        "crashes",
        "id",
        postgresql_where=text(
            "(status || '') = 'RUNNING' AND send_at IS NOT NULL OR (status || '') = 'PENDING' AND crashes > 0"
        ),
    ),
    Index("turns_trace_id", "trace_id"),
    Index("turns_parent", "parent_turn_id", postgresql_where=text("parent_turn_id IS NOT NULL")),
    # Parents that wait for their children: few, and looked for again and again.
    Index("turns_joining", "id", postgresql_where=text("joining IS NOT NULL")),
    # The tenant's list: without it a small tenant's page would walk everybody's turns.
    Index("turns_tenant_created", "tenant_id", "created_at", "id"),
)

messages = Table(
    "messages",
    metadata,
    Column("turn_id", Uuid, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("role", Text, nullable=False),
    Column("kind", Text, nullable=False, server_default="message"),
    Column("content", JSONB, nullable=False),
    Column("created_at", Time, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("turn_id", "ordinal"),
    CheckConstraint("role IN ('user', 'assistant')", name="role_known"),
)

turn_attempts = Table(
    "turn_attempts",
    metadata,
    Column("turn_id", Uuid, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("worker_id", Text),
    Column("started_at", Time),
    Column("finished_at", Time, nullable=False, server_default=NOW),
    Column("outcome", Text, nullable=False),
    Column("error_class", Text),
    Column("error", Text),
    PrimaryKeyConstraint("turn_id", "attempt", "fence"),
)

submissions = Table(
    "submissions",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("turn_id", Uuid, nullable=False),
    Column("answer", JSONB, nullable=False),
    Column("created_at", Time, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("tenant_id", "key"),
    Index("submissions_created_at", "created_at"),
)

turn_values = Table(
    "turn_values",
    metadata,
    Column("turn_id", Uuid, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", JSONB, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("created_at", Time, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("turn_id", "key"),
)
"""What `ctx.once` has recorded."""

memory_items = Table(
    "memory_items",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    # Not jsonb: a value comes back as the text that it was, numbers and all. None: deleted.
    Column("content", JSON),
    Column("context", Text),
    Column("priority", Integer, nullable=False),
    Column("tags", ARRAY(Text), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("write_id", Uuid, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("updated_at", Time, nullable=False),
    Column("expires_at", Time, nullable=False),
    PrimaryKeyConstraint("tenant_id", "session_id", "kind", "key"),
    Index("memory_items_expires_at", "expires_at"),
)
"""What sessions remember for good: the durable kinds of their working memories."""

chosen_ids = Table(
    "chosen_ids",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("turn_id", Uuid, nullable=False),
    Column("submitted_at", Time),
    Column("canceled_at", Time),
    Column("reason", Text),
    Column("created_at", Time, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("tenant_id", "turn_id"),
    Index("chosen_ids_created_at", "created_at"),
)
"""Where a submit under an id that its client has chosen and a cancel of that id meet, whichever comes first."""

webhooks = Table(
    "webhooks",
    metadata,
    Column("turn_id", Uuid, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("url", Text, nullable=False),
    Column("event", JSONB, nullable=False),
    Column("due_at", Time),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("delivered_at", Time),
    Column("error", Text),
    Column("created_at", Time, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("turn_id", "generation"),
    Index("webhooks_due_at", "due_at", postgresql_where=text("due_at IS NOT NULL")),
)
"""What is owed to an address that a client named: triggers of migration 0002 write it in the commit that ends the turn."""

archived_turns = Table(
    "archived_turns",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("tenant_id", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("session_id", "trace_id")),
    Column("parent_turn_id", Uuid),
    Column("ended_at", Time, primary_key=True),
    Column("archived_at", Time, nullable=False, server_default=NOW),
    *(Column(name, JSONB, nullable=False) for name in ("turn", "messages", "attempts", "recorded_values", "webhooks")),
    Index("archived_turns_session", "tenant_id", "session_id"),
    Index("archived_turns_trace_id", "trace_id"),
    Index("archived_turns_parent", "parent_turn_id", postgresql_where=text("parent_turn_id IS NOT NULL")),
    Index(
        "archived_turns_archived_at", "archived_at", postgresql_using="brin", postgresql_with={"autosummarize": "on"}
    ),
)
