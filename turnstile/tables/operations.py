"""The tables that no turn's way goes through: of workers, and of what operators have done."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Float,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from turnstile.tables.metadata import NOW, Time, metadata

turn_traces = Table(
    "turn_traces",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("turn_id", Uuid, nullable=False),
    Column("turn_created_at", Time, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("trace_id", Text, nullable=False),
    Column("span_id", Text, nullable=False),
    Column("parent_span_id", Text),
    Column("ended_at", Time, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("turn_id", "tenant_id", "turn_created_at", "generation"),
    Index("turn_traces_trace_id", "trace_id"),
)
"""The traces of the runs before the last one, a row for each redrive and each retry of a halted turn. They stay where they are
when the turn goes to the archive."""

workers = Table(
    "workers",
    metadata,
    Column("worker_id", Text, primary_key=True),
    Column("queue", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("busy", Integer, nullable=False, server_default="0"),
    Column("dwell_seconds", Float, nullable=False, server_default="0"),
    Column("draining", Boolean, nullable=False, server_default=text("false")),
    Column("started_at", Time, nullable=False, server_default=NOW),
    Column("seen_at", Time, nullable=False, server_default=NOW),
)

redrives = Table(
    "redrives",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("queue", Text),
    Column("requested_by", Text, nullable=False),
    Column("filter", JSONB, nullable=False),
    Column("turn_ids", ARRAY(Uuid), nullable=False, server_default=text("'{}'::uuid[]")),
    Column("started_at", Time, nullable=False, server_default=NOW),
    Column("finished_at", Time),
)
