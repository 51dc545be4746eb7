"""The output of the demo: a live display on a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from statistics import quantiles
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from turnstile.ops.dev.demo.checks import Finding, Row
from turnstile.turn.status import TurnStatus

COLOURS = {"PENDING": "yellow", "RUNNING": "cyan", "SUCCEEDED": "green", "FAILED": "red", "CANCELED": "magenta"}
PLAIN_EVERY_SECONDS = 2.0


class Screen(AbstractContextManager["Screen"]):
    """Shows counts and events while the demo runs, and the outcome at its end."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._began = time.monotonic()
        self._shown_at = 0.0
        self._progress = Progress(
            TextColumn("[bold]turns ended"),
            BarColumn(40),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
        )
        self._task = self._progress.add_task("turns", total=None)
        self._counts: Mapping[str, int] = {}
        self._live = Live(console=self.console, refresh_per_second=8, get_renderable=self._picture)

    def __enter__(self) -> "Screen":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def event(self, text: str) -> None:
        """Prints an event with its time."""
        self.console.print(Text(f"{time.monotonic() - self._began:6.1f} s  {text}"), soft_wrap=True)

    def said(self, output: str) -> None:
        """Prints the output of an operator's command, indented."""
        self.console.print(
            Text("\n".join(f"          {line}" for line in output.rstrip().splitlines())), soft_wrap=True
        )

    def counts(self, counts: Mapping[str, int], total: int) -> None:
        """Updates the counts of turns by status. `total` is the final number of turns."""
        self._counts = counts
        ended = sum(many for status, many in counts.items() if TurnStatus(status).is_terminal)
        self._progress.update(self._task, completed=ended, total=total)
        if not self.console.is_terminal and time.monotonic() - self._shown_at > PLAIN_EVERY_SECONDS:
            self._shown_at = time.monotonic()
            self.event(f"{ended}/{total} ended: " + ", ".join(f"{many} {status}" for status, many in counts.items()))

    def _picture(self) -> RenderableType:
        line = Text("  ")
        for status in TurnStatus:
            line.append(f"{status} {self._counts.get(status, 0)}   ", style=COLOURS[status])
        return Group(self._progress, line)

    def outcome(self, rows: Sequence[Row], findings: Sequence[Finding], seconds: float) -> None:
        """Prints the table by status, the figures, and the check."""
        table = Table(title="the status table", title_justify="left")
        for column in ("status", "turns", "attempts"):
            table.add_column(column, justify="left" if column == "status" else "right")
        for status in TurnStatus:
            mine = [row for row in rows if row.status == status]
            if mine:
                table.add_row(
                    Text(status, style=COLOURS[status]), str(len(mine)), str(sum(row.attempt for row in mine))
                )
        self.console.print(table)
        # Latencies only of turns that succeeded without a redrive.
        latencies = [row.latency_seconds for row in rows if row.succeeded and row.generation == 1]
        percentiles = quantiles(latencies, n=20)
        succeeded = sum(row.succeeded for row in rows)
        self.console.print(
            f"{succeeded} turns answered in {seconds:.1f} s ({succeeded / seconds:.1f} a second); "
            f"accepted to answered: p50 {percentiles[9]:.2f} s, p95 {percentiles[18]:.2f} s",
            soft_wrap=True,
        )
        for finding in findings:
            mark = Text("✓ ", style="green") if finding.holds else Text("✗ ", style="bold red")
            self.console.print(mark + Text(f"{finding.claim}: {finding.detail}"), soft_wrap=True)
