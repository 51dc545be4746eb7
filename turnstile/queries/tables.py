"""The columns that the filtered reads name, for SQLAlchemy Core. Only `migrations/versions` defines the tables."""

from sqlalchemy import ARRAY, JSON, BigInteger, DateTime, Float, Integer, Text, Uuid, column, table

_Time = DateTime(timezone=True)

sessions = table("sessions", column("tenant_id", Text), column("session_id", Text), column("halted_by", Uuid))

turns = table(
    "turns",
    column("id", Uuid),
    column("tenant_id", Text),
    column("session_id", Text),
    column("seq", BigInteger),
    column("queue", Text),
    column("status", Text),
    column("attempt", Integer),
    column("failures", Integer),
    column("crashes", Integer),
    column("max_attempts", Integer),
    column("generation", Integer),
    column("worker_id", Text),
    column("execute_at", _Time),
    column("send_at", _Time),
    column("expires_at", _Time),
    column("timeout_seconds", Float),
    column("cancel_requested_at", _Time),
    column("cancel_reason", Text),
    column("error_class", Text),
    column("error", Text),
    column("dead_lettered_at", _Time),
    column("trace_id", Text),
    column("span_id", Text),
    column("parent_span_id", Text),
    column("parent_turn_id", Uuid),
    column("kind", Text),
    column("joining", ARRAY(Uuid)),
    column("metadata", JSON),
    column("created_at", _Time),
    column("started_at", _Time),
    column("finished_at", _Time),
).alias("t")
"""As `t`, so that SQL of the statements fits in."""
