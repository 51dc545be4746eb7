"""What a relay measures: what it sent and how late, and what the tables and the DLQs say."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, Literal, cast

from structlog.testing import capture_logs

from tests.ops.dead_turns import make_failed
from tests.relay.relays import Sqs, declaring, submit_due
from tests.statements.calls import FAILURE
from tests.support.claims import claim_one, settle_one, submit_turns
from tests.support.factories import Proven
from tests.support.metric_readings import reading, rising
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.queries.attention import Attention
from turnstile.relay.loop import Relay
from turnstile.relay.reports import attention_metric
from turnstile.relay.reports.attention_metric import report_attention
from turnstile.relay.reports.backlog_metric import report_backlog
from turnstile.relay.reports.gauges import measure
from turnstile.statements.paused_queues import pause_queue
from turnstile.telemetry.instruments import REGISTRY
from turnstile.telemetry.metrics import DLQ_MESSAGES, WEBHOOKS_OWED

OFTEN = 0.01
SENT = "turnstile_relay_sent_total"
LAG = "turnstile_relay_lag_seconds"
CALM: dict[str, Any] = {
    "failed_lately": 0, "halted": 0, "halted_lately": 0, "halted_seconds": 0.0, "untouched_seconds": 0.0,
}  # fmt: skip


async def measured(report: Callable[..., Awaitable[None]], *given: Any, enough: Callable[[], object]) -> None:
    """Runs a report until `enough`."""
    stopping = asyncio.Event()
    running = asyncio.ensure_future(report(*given, stopping, every_seconds=OFTEN))
    try:
        await until(enough)
    finally:
        stopping.set()
        await running


# --- sends


async def test_what_is_sent_is_counted_with_how_late_it_was(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    settings = declaring(settings, "counted")
    await submit_due(database, "counted", 3, since_seconds=100.0)
    relay = Relay(of_relay, Sqs(), settings, Proven())
    before = reading(f"{LAG}_sum", queue="counted") or 0.0

    with rising(SENT, 3, queue="counted", kind="wake_up"), rising(f"{LAG}_count", 3, queue="counted"):
        await relay.round()

    assert 300 <= (reading(f"{LAG}_sum", queue="counted") or 0.0) - before < 360


async def test_dead_letters_are_counted_apart_and_what_a_queue_refuses_is_not(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    settings = declaring(settings, "refused")
    await submit_turns(database, settings, "one")
    await settle_one(database, settings, await claim_one(database, settings), FAILURE)
    await submit_due(database, "refused", 1)
    relay = Relay(of_relay, Sqs(refused=["refused"]), settings, Proven())

    with (
        rising(SENT, queue=settings.queue, kind="dead_letter"),
        rising(SENT, 0, queue="refused", kind="wake_up"),
        rising(f"{LAG}_count", 0, queue="refused"),
    ):
        await relay.round()


# --- tables


async def test_the_backlog_is_shown_and_not_shown_while_postgres_is_away(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one", "two")
    await database.fetch("UPDATE turns SET created_at = created_at - interval '100 s'", {})

    def backlog(state: str) -> float | None:
        return reading("turnstile_backlog_turns", queue=settings.queue, state=state)

    await measured(report_backlog, database, [settings.queue], enough=lambda: backlog("due") is not None)

    assert [backlog(state) for state in ("due", "ready", "running")] == [2, 1, 0]
    assert 100 <= (reading("turnstile_backlog_oldest_seconds", queue=settings.queue) or 0.0) < 160
    async with Database(DatabasePlace("postgresql://127.0.0.1:1/none"), "test", size=1, wait_seconds=0.05) as away:
        await measured(report_backlog, away, [settings.queue], enough=lambda: backlog("due") is None)
    assert reading("turnstile_backlog_oldest_seconds", queue=settings.queue) is None


async def test_a_pause_is_shown_and_not_shown_while_postgres_is_away(database: Database) -> None:
    await pause_queue(database, "paused", paused_by="ada", reason=None)

    def shown() -> list[float | None]:
        return [reading("turnstile_queue_paused", queue=queue) for queue in ("paused", "open")]

    await measured(report_backlog, database, ["paused", "open"], enough=lambda: None not in shown())

    assert shown() == [1, 0]
    async with Database(DatabasePlace("postgresql://127.0.0.1:1/none"), "test", size=1, wait_seconds=0.05) as away:
        await measured(report_backlog, away, ["paused", "open"], enough=lambda: shown() == [None, None])


async def test_what_needs_an_operator_is_shown(database: Database, settings: Settings) -> None:
    first, _ = await make_failed(database, settings, ["a", "b"], halt=True)
    await database.fetch("UPDATE turns SET finished_at = now() - interval '2 hours' WHERE id = %(id)s", {"id": first})
    dead = await make_failed(database, settings, ["c"])
    await database.fetch(
        "UPDATE turns SET send_at = NULL, dead_lettered_at = now() - interval '1 hour' WHERE id = ANY (%(ids)s::uuid[])",
        {"ids": dead},
    )

    def shown(name: str) -> float:
        return reading(f"turnstile_{name}", queue=settings.queue) or 0.0

    await measured(report_attention, database, [settings.queue], enough=lambda: shown("failed_turns"))

    assert [shown(name) for name in ("failed_turns", "sessions_halted", "dead_letters_expected")] == [1, 2, 1]
    assert 7200 <= shown("sessions_halted_seconds") < 7260
    assert 3600 <= shown("dlq_untouched_seconds") < 3660


async def test_nothing_that_needs_an_operator_is_shown_while_postgres_is_away() -> None:
    attention_metric._measure(Attention(queue="away", letters=7, **CALM))

    def shown() -> list[str]:
        samples = [sample for family in REGISTRY.collect() for sample in family.samples]
        return [sample.name for sample in samples if sample.labels == {"queue": "away"}]

    assert len(shown()) == 5
    async with Database(DatabasePlace("postgresql://127.0.0.1:1/none"), "test", size=1, wait_seconds=0.05) as away:
        await measured(report_attention, away, ["away"], enough=lambda: not shown())


def test_the_metric_has_no_number_if_there_are_too_many_letters_to_count() -> None:
    attention_metric._measure(Attention(queue="flooded", letters=None, **CALM))

    assert math.isnan(reading("turnstile_dead_letters_expected", queue="flooded") or 0.0)


# --- gauges that cost a call


async def gauges_measured(
    database: Database, queues: MessageQueues, settings: Settings, enough: Callable[[], object]
) -> None:
    """Measures until `enough`, as a process does that exports its metrics."""
    await measured(measure, database, queues, settings.model_copy(update={"metrics_port": 0}), enough=enough)


async def test_the_messages_on_a_dlq_and_the_webhooks_that_are_due_are_counted(
    database: Database, queues: MessageQueues, settings: Settings, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await settle_one(database, settings, await claim_one(database, settings), FAILURE)
    await relay.round()
    await database.fetch(
        "INSERT INTO webhooks (turn_id, generation, tenant_id, url, due_at, event)"
        " SELECT gen_random_uuid(), 1, 't', 'https://host', now() + make_interval(secs => due), '{}'"
        " FROM unnest(ARRAY[-1, -1, 60]) due",
        {},
    )
    allowing = settings.model_copy(update={"webhook_hosts": ("*",)})

    await gauges_measured(
        database, queues, allowing, lambda: reading("turnstile_dlq_messages", queue=settings.queue) == 1
    )

    assert reading("turnstile_webhooks_owed") == 2


async def test_a_missing_dlq_hides_no_other_and_nothing_old_is_shown_of_it(
    database: Database, queues: MessageQueues, settings: Settings
) -> None:
    both = declaring(settings, "absent")
    gone = MessageQueues(both)
    DLQ_MESSAGES.set(7, "absent")

    def shown(queue: str) -> float | None:
        return reading("turnstile_dlq_messages", queue=queue)

    with capture_logs() as logs:
        # The missing one comes first.
        first = both.model_copy(update={"queues": both.queues[::-1]})
        await gauges_measured(database, gone, first, lambda: (shown(settings.queue), shown("absent")) == (0, None))
    await gone.close()

    assert {line["event"] for line in logs} == {"dlq.not_read"}


async def test_how_many_webhooks_are_due_is_unknown_while_postgres_is_away(
    queues: MessageQueues, settings: Settings
) -> None:
    WEBHOOKS_OWED.set(7)
    allowing = settings.model_copy(update={"webhook_hosts": ("*",)})

    async with Database(DatabasePlace("postgresql://127.0.0.1:1/none"), "test", size=1, wait_seconds=0.05) as away:
        await gauges_measured(away, queues, allowing, lambda: math.isnan(reading("turnstile_webhooks_owed") or 0.0))


async def test_where_no_webhooks_are_allowed_none_are_counted(
    database: Database, queues: MessageQueues, settings: Settings
) -> None:
    WEBHOOKS_OWED.set(7)

    await gauges_measured(
        database, queues, settings, lambda: reading("turnstile_dlq_messages", queue=settings.queue) == 0
    )

    assert reading("turnstile_webhooks_owed") == 7


class Counted:
    """Queues that count how often they are asked."""

    calls = 0

    async def count(self, queue: str, *, dead: bool) -> int:
        self.calls += 1
        return 0


class StopsWhoWaits(asyncio.Event):
    """Is set by the first who waits for it."""

    async def wait(self) -> Literal[True]:
        self.set()
        return True


async def test_without_exported_metrics_no_call_is_made(settings: Settings) -> None:
    queues = Counted()

    await measure(cast("Any", None), cast("Any", queues), settings, StopsWhoWaits(), every_seconds=OFTEN)

    assert not queues.calls
