"""Generates reference pages from the code: settings, metrics, tables and exit codes, in `docs/`.

python -m turnstile.dev.reference      writes the pages
"""

from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from sqlalchemy import Column, DefaultClause, Identity, Table
from sqlalchemy.dialects.postgresql.base import PGDialect

from turnstile.config.jwt_settings import JwtSettings
from turnstile.config.limit_settings import LimitSettings
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.rate_rules import RateRule
from turnstile.config.settings import PREFIX, Settings
from turnstile.ops.terminal.exit_codes import MEANINGS
from turnstile.schema import METADATA
from turnstile.telemetry import metrics
from turnstile.telemetry.instruments import Instrument, Process
from turnstile.worker.lifecycle.watchdog import EXIT_STUCK

DOCS = Path(__file__).resolve().parents[2] / "docs"

SETTINGS = """# Settings

Generated from `turnstile/config/settings.py` by `python -m turnstile.dev.reference`.

A process reads its settings once, when it starts, and refuses to start if one is wrong. The AWS SDK's own variables apply
as well. A variable `TURNSTILE_…` that is not a setting is named in one line on standard error. It does not
keep the process from starting: after a rollback the environment still has the variables of the newer release.

Every option of a command is a variable, too: `TURNSTILE_REDRIVE_LIMIT` is `turnstile redrive --limit`. Only `--yes` is
none: whoever changes something says so each time. With `TURNSTILE_DEBUG=1` an error is a stack trace in place of a line.

| variable | default | meaning |
|---|---|---|
{settings}

## Queues

Several queues are declared in `turnstile.toml` ([example](../turnstile.toml.example)) or in `TURNSTILE_QUEUES`.

| field | default | meaning |
|---|---|---|
{queues}

## Rate limits

They are declared in `turnstile.toml` ([example](../turnstile.toml.example)) or in `TURNSTILE_RATES`.
[API limits](api-limits.md) says what they do.

| field | default | meaning |
|---|---|---|
{rates}

## JWTs

`TURNSTILE_JWT` is a JSON object with these fields ([how a token is checked](clients.md#jwts)).

| field | default | meaning |
|---|---|---|
{jwt}

## Limits

Limits that hold for all workers together are declared in `turnstile.toml` as `[[limits]]`, or in `TURNSTILE_LIMITS` ([what they
do](limits.md)).

| field | default | meaning |
|---|---|---|
{limits}
"""

METRICS = """# Metrics

Generated from `turnstile/telemetry/metrics.py` by `python -m turnstile.dev.reference`.

- **Prometheus**: set `TURNSTILE_METRICS_PORT` for the API, workers and relays, and scrape `http://HOST:PORT/metrics`. The
  port asks for no key, and answers while a handler blocks the event loop. Two processes on one host need two ports. It also
  serves what your handler's module has in prometheus_client's default registry (`prometheus_client.Counter(...)`), except for
  names that Turnstile has itself.
- **OTLP over HTTP**: install the extra `telemetry` and set `OTEL_EXPORTER_OTLP_ENDPOINT`. The names are the same, without
  `_total`. Only Turnstile's own metrics are sent, every 60 s (`OTEL_METRIC_EXPORT_INTERVAL`), and once at the end of the
  process, which waits 1 s for it at most.
- With neither, no metric leaves the process. A Lambda function exports no metrics.
- `docker compose --profile monitoring up` scrapes and shows them. `metrics_port` and `telemetry` of `infra/examples/complete`
  turn them on there ([how](../infra/README.md#metrics-and-traces)).

Several relays report the same tables and queues: take their maximum, never their sum. What a relay could not read is not
shown, so alarm on `absent(...)`, too. No label has a tenant, a session or a turn, and labels with values from outside have a
bound. Each process also has `process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_open_fds` and the others
of Prometheus's clients. [ADR 0034](adr/0034-metrics.md) says what they cost.

{metrics}
"""

TABLES = """# Tables

Generated from `turnstile/schema.py` by `python -m turnstile.dev.reference`.

The tables are in the schema `turnstile`, or in the one that `TURNSTILE_DATABASE_SCHEMA` names. The status table is
[`turns`](#turns). Read the tables with your own SQL, and change them only by commands and the API. The indexes are in
`turnstile/schema.py`: a turn is found by `id`, by `trace_id`, by `parent_turn_id`, or by `tenant_id` with `session_id` or
`created_at`. Let no foreign key refer to these tables: `turnstile archive` deletes rows.

## Join them with your own

`turnstile.schema` has each table for SQLAlchemy:

```python
from sqlalchemy import Column, MetaData, Table, Text, Uuid, select

from turnstile.schema import turns

orders = Table("orders", MetaData(), Column("number", Text, primary_key=True), Column("turn_id", Uuid))

open_orders = (
    select(orders.c.number, turns.c.status, turns.c.queued_at)
    .join_from(orders, turns, turns.c.id == orders.c.turn_id)
    .where(turns.c.status.in_(["PENDING", "RUNNING"]))
    .order_by(turns.c.queued_at)
)
```

Execute it with your own engine. Its role needs:

```sql
GRANT USAGE ON SCHEMA turnstile TO your_role;
GRANT SELECT ON ALL TABLES IN SCHEMA turnstile TO your_role;
-- Row-level security hides every row from a role without a policy. One for each table that you read:
CREATE POLICY your_role ON turnstile.turns FOR SELECT TO your_role USING (true);
```

If the schema has another name, use `engine.execution_options(schema_translate_map={{"turnstile": "other"}})`.
`turns.c.status.doc` is the sentence that this page has about the column.

{tables}
"""

PROCESSES = {
    Process.WORKER: "Worker",
    Process.RELAY: "Relay, also within a worker",
    Process.MEMORY_WATCHERS: "Worker and relay",
    Process.API: "API",
    Process.ALL: "All",
}

EXIT_CODES = """# Exit codes of `turnstile`

Generated from `turnstile/ops/terminal/exit_codes.py` by `python -m turnstile.dev.reference`.

| code | meaning |
|---|---|
{codes}
"""


def pages() -> dict[Path, str]:
    """The content of each page, by path."""
    settings = [
        _row(str(field.validation_alias or f"{PREFIX}{name.upper()}"), name, field)
        for name, field in Settings.model_fields.items()
    ]
    queues = [_row(name, name, field) for name, field in QueueSettings.model_fields.items()]
    rates = [_row(name, name, field) for name, field in RateRule.model_fields.items()]
    jwt = [_row(name, name, field) for name, field in JwtSettings.model_fields.items()]
    limits = [_row(name, name, field) for name, field in LimitSettings.model_fields.items()]
    meanings = {**MEANINGS, EXIT_STUCK: "a worker's event loop was stuck; the watchdog ended it"}
    codes = [f"| {int(code)} | {meaning} |" for code, meaning in sorted(meanings.items())]
    return {
        DOCS / "metrics.md": METRICS.format(metrics="\n\n".join(_metrics(process) for process in PROCESSES)),
        DOCS / "tables.md": TABLES.format(tables="\n\n".join(_table(table) for table in METADATA.tables.values())),
        DOCS / "settings.md": SETTINGS.format(
            settings="\n".join(settings),
            queues="\n".join(queues),
            rates="\n".join(rates),
            limits="\n".join(limits),
            jwt="\n".join(jwt),
        ),
        DOCS / "exit-codes.md": EXIT_CODES.format(codes="\n".join(codes)),
    }


def _metrics(process: Process) -> str:
    declared = [one for one in vars(metrics).values() if isinstance(one, Instrument) and one.process is process]
    rows = [
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels) or 'none'} | {one.unit or 'none'}"
        f" | {one.meaning} |"
        for one in declared
    ]
    head = "| metric | type | labels | unit | meaning |\n|---|---|---|---|---|"
    return "\n".join([f"## {PROCESSES[process]}\n", head, *rows])


def _table(table: Table) -> str:
    rows = [f"| `{one.name}` | {_type(one)} | {_column_default(one)} | {one.doc} |" for one in table.columns]
    head = "| column | type | default | meaning |\n|---|---|---|---|"
    return "\n".join([f"## {table.name}\n", f"{table.info['doc']}\n", head, *rows])


def _type(column: Column[Any]) -> str:
    dialect = PGDialect()  # type: ignore[no-untyped-call]
    return column.type.compile(dialect=dialect).lower().replace("timestamp with time zone", "timestamptz")


def _column_default(column: Column[Any]) -> str:
    match column.server_default:
        case DefaultClause(arg=value):
            return f"`{value}`"
        case Identity():
            return "generated"
        case _:
            return "NULL" if column.nullable else "required"


def _row(variable: str, name: str, field: FieldInfo) -> str:
    """Raises ValueError for a field without a docstring."""
    if field.description is None:
        raise ValueError(f"{name} has no docstring")
    default = "required" if field.is_required() else _default(name, field.default)
    return f"| `{variable}` | {default} | {' '.join(field.description.split())} |"


def _default(name: str, default: Any) -> str:
    match default:
        case None | "" | () | {}:
            return "none"
        case (str(), *_):
            return ", ".join(f"`{one}`" for one in default)
        case bool():
            return "on" if default else "off"
        case int() | float():
            unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), "")
            return f"{default}" if name.endswith("_port") else f"{default:,g}{unit}"
        case _:
            return f"`{default}`"


UNITS = {"_seconds": " s", "_bytes": " bytes", "_days": " days"}


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, "utf-8")
