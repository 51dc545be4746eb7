"""The screen of `turnstile top`: what it shows of a snapshot, and what its keys do."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

from textual.pilot import Pilot
from textual.widgets import DataTable, Static, TabbedContent

from turnstile.errors import DatabaseUnavailableError
from turnstile.ops.dead_letters.failed_turns import FailedGroup
from turnstile.ops.doctor.run_checks import DoctorFinding, Findings
from turnstile.ops.queues.queue_overview import QueueOverview, SqsCounts
from turnstile.ops.stats.read_stats import Percentiles, Stats
from turnstile.ops.top.screen import TopScreen, TurnDetails
from turnstile.ops.top.snapshot import Snapshot
from turnstile.ops.top.views import FAILURES, name_findings
from turnstile.ops.workers.worker_overview import WorkerOverview
from turnstile.queries.backlog import Backlog
from turnstile.queries.workers import RunningTurn, WorkerState

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
HIDDEN_SECONDS = 3600.0
"""No second look during a test."""


def queue(name: str, due: int, *, truncated: bool = False) -> QueueOverview:
    backlog = Backlog(queue=name, due=due, ready=due, oldest_seconds=90.0, running=1, truncated=truncated)
    return QueueOverview(
        queue=name,
        purpose=None,
        owner=None,
        sqs=SqsCounts(None, 3),
        backlog=backlog,
        halted_sessions=0,
        workers={},
        paused=None,
        top_tenant=None,
    )


def running(number: int, queue_name: str) -> RunningTurn:
    return RunningTurn(
        worker_id=f"worker-{number}",
        turn_id=UUID(int=number),
        tenant_id="t",
        session_id=f"[red]s{number}[/red]",
        queue=queue_name,
        attempt=1,
        started_at=NOW,
        lease_until=NOW,
        seconds=5.0,
    )


WORKER = WorkerOverview(
    worker_id="worker-2", queue="bulk", host="h", pid=1, version="0.1.0", release="r8", slots=4, busy=3, draining=False,
    deaf_for_seconds=0.0, blocked_for_seconds=0.0, blocked_by=None, starved_for_seconds=0.0, broken_by=None,
    lease_seconds=30.0, started_at=NOW, seen_at=NOW, lost_at=None, alive=False, paused=False, read_at=NOW,
    state=WorkerState.SILENT, seconds_since_heartbeat=300.0,
)  # fmt: skip
FAILED = FailedGroup(
    queue="bulk",
    error_class="Boom",
    turns=12,
    tenants=1,
    first_failed_at=NOW,
    last_failed_at=NOW,
    sample_turn_id=UUID(int=9),
    sample_error="no answer",
    releases={"r8": 12},
)

SNAPSHOT = Snapshot(
    stats=Stats(
        since_seconds=300.0,
        read_at=NOW,
        ended=600,
        ended_per_second=2.0,
        by_status={"SUCCEEDED": 590, "FAILED": 10},
        by_error_class={"Boom": 10},
        waiting_seconds=Percentiles(p50=0.1, p95=0.2, p99=0.3),
        running_seconds=None,
        attempts_per_turn=1.0,
    ),
    queues=[queue("chat", 7), queue("bulk", 2)],
    workers=[WORKER],
    running=[running(1, "chat"), running(2, "bulk")],
    failed=[FAILED],
)


class Source:
    """What the screen reads: a snapshot, or an error."""

    def __init__(self, snapshot: Snapshot = SNAPSHOT) -> None:
        self.snapshot = snapshot
        self.trouble: DatabaseUnavailableError | None = None
        self.explained: list[UUID] = []
        self.findings: Findings = []
        self.reads = 0
        self.open = asyncio.Event()
        self.open.set()

    async def read(self) -> Snapshot:
        self.reads += 1
        await self.open.wait()
        if self.trouble is not None:
            raise self.trouble
        return self.snapshot

    async def explain(self, turn_id: UUID) -> list[str]:
        self.explained.append(turn_id)
        return ["It runs."]

    async def check(self) -> str:
        return name_findings(self.findings)

    def screen(self) -> TopScreen:
        return TopScreen(self.read, self.explain, self.check, HIDDEN_SECONDS)


async def settle(app: TopScreen, pilot: Pilot[None]) -> None:
    """Waits for the read and for what it draws."""
    await app.workers.wait_for_complete()
    await pilot.pause()


def column(app: TopScreen, view: str, number: int) -> list[str]:
    table = cast("DataTable[Any]", app.query_one(f"#{view}-table", DataTable))
    return [str(table.get_row_at(row)[number]) for row in range(table.row_count)]


def row(app: TopScreen, view: str) -> list[str]:
    """The first one."""
    return [str(value) for value in app.query_one(f"#{view}-table", DataTable).get_row_at(0)]


def text(app: TopScreen, name: str) -> str:
    return str(app.query_one(f"#{name}", Static).render())


async def test_it_shows_throughput_latency_and_backlog() -> None:
    app = Source().screen()
    async with app.run_test() as pilot:
        await settle(app, pilot)

        shown = text(app, "headline")
        assert "600 (2 a second); SUCCEEDED 590, FAILED 10" in shown
        assert "waiting p50 0.10s" in shown or "waiting p50 100ms" in shown
        assert "backlog: 9 due, 2 running; 9 could begin, the oldest has been due for" in shown
        assert column(app, "queues", 0) == ["chat", "bulk"]


async def test_the_first_line_is_what_the_doctor_finds() -> None:
    well, ill = Source(), Source()
    ill.findings = [
        DoctorFinding(code="service-unreachable", subject="redis"),
        DoctorFinding(code="standstill", subject="chat"),
        DoctorFinding(code="queue-paused", subject="bulk"),
    ]
    shown = []
    for source in (well, ill):
        app = source.screen()
        async with app.run_test() as pilot:
            await settle(app, pilot)
            shown.append(text(app, "doctor"))

    assert shown[0].startswith("doctor: nothing found")
    assert shown[1] == "doctor: 2 errors, 1 warning: service-unreachable redis, standstill chat, queue-paused bulk"


async def test_a_backlog_that_was_cut_says_so() -> None:
    app = Source(replace(SNAPSHOT, queues=[queue("chat", 10_000, truncated=True), queue("bulk", 2)])).screen()
    async with app.run_test() as pilot:
        await settle(app, pilot)

        assert "backlog: 10002+ due, 2 running; 10002+ could begin" in text(app, "headline")


async def test_markup_in_a_name_is_shown_as_it_is() -> None:
    app = Source().screen()
    async with app.run_test() as pilot:
        await settle(app, pilot)

        assert column(app, "turns", 4)[0] == "[red]s1[/red]"


def test_a_narrow_terminal_shows_of_a_failure_its_error() -> None:
    assert list(FAILURES.columns)[:2] == ["error", "turns"]


async def test_enter_on_a_queue_shows_its_turns_and_escape_shows_all() -> None:
    app = Source().screen()
    async with app.run_test() as pilot:
        await settle(app, pilot)

        await pilot.press("down", "enter")
        assert app.query_one("#views", TabbedContent).active == "turns"
        assert column(app, "turns", 5) == ["bulk"]

        await pilot.press("escape")
        assert column(app, "turns", 5) == ["chat", "bulk"]


async def test_a_worker_is_shown_with_its_state_and_enter_shows_its_turns() -> None:
    app = Source().screen()
    async with app.run_test() as pilot:
        await settle(app, pilot)

        await pilot.press("2")
        assert row(app, "workers")[:5] == ["worker-2", "bulk", "silent", "5m ago", "3/4"]

        await pilot.press("enter")
        assert app.query_one("#views", TabbedContent).active == "turns"
        assert column(app, "turns", 6) == ["worker-2"]


async def test_failures_are_shown_by_class_and_enter_opens_the_last_turn() -> None:
    source = Source()
    app = source.screen()
    async with app.run_test() as pilot:
        await settle(app, pilot)

        await pilot.press("4")
        shown = ["Boom", "12", "2026-11-24 12:00:00Z", "bulk", "r8 12", str(FAILED.sample_turn_id), "no answer"]
        assert row(app, "failures") == shown

        await pilot.press("enter")
        assert source.explained == [FAILED.sample_turn_id]


async def test_enter_on_a_turn_says_what_it_waits_for() -> None:
    source = Source()
    app = source.screen()
    async with app.run_test() as pilot:
        await settle(app, pilot)

        await pilot.press("3", "enter")

        assert source.explained == [UUID(int=1)]
        assert isinstance(app.screen, TurnDetails)
        await pilot.press("escape")
        assert not isinstance(app.screen, TurnDetails)


async def test_the_screen_shows_an_outage_and_keeps_the_last_figures() -> None:
    source = Source()
    app = source.screen()
    async with app.run_test() as pilot:
        await settle(app, pilot)

        source.trouble = DatabaseUnavailableError("connection refused")
        await look_again(app, pilot)
        assert "connection refused" in text(app, "trouble")
        assert column(app, "queues", 0) == ["chat", "bulk"]

        source.trouble = None
        await look_again(app, pilot)
        assert "connection refused" not in text(app, "trouble")


async def test_a_screen_on_hold_does_not_change() -> None:
    source = Source()
    app = source.screen()
    async with app.run_test() as pilot:
        await settle(app, pilot)
        source.snapshot = replace(SNAPSHOT, queues=[])

        await pilot.press("space")
        await look_again(app, pilot)
        assert column(app, "queues", 0) == ["chat", "bulk"]

        await pilot.press("space")
        await look_again(app, pilot)
        assert column(app, "queues", 0) == []


async def test_a_slow_look_is_not_given_up_for_the_next_one() -> None:
    source = Source()
    source.open.clear()
    app = source.screen()
    async with app.run_test() as pilot:
        app._look_again()
        await pilot.pause()
        source.open.set()
        await settle(app, pilot)

        assert source.reads == 1
        assert column(app, "queues", 0) == ["chat", "bulk"]


async def look_again(app: TopScreen, pilot: Pilot[None]) -> None:
    """As the timer does."""
    look: Callable[[], None] = app._look_again
    look()
    await settle(app, pilot)
