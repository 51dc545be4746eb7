"""The output of the demo."""

import time
from collections.abc import Mapping, Sequence
from statistics import quantiles

from turnstile.dev.demo.demo_checks import Finding, Row
from turnstile.ops.terminal.output import print_table, print_text
from turnstile.turn.status import TurnStatus

COUNTS_EVERY_SECONDS = 2.0


class Screen:
    """Prints events and counts while the demo runs, and the outcome at its end."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._counted_at = 0.0

    def event(self, text: str) -> None:
        """Prints an event with its time."""
        print_text(f"{time.monotonic() - self._began:6.1f} s  {text}")

    def output(self, text: str) -> None:
        """Prints the output of an operator's command, indented."""
        for line in text.rstrip().splitlines():
            print_text(f"          {line}")

    def counts(self, counts: Mapping[str, int], total: int) -> None:
        """Prints the turns by status every two seconds. `total` is the final number of turns."""
        if counts and time.monotonic() - self._counted_at > COUNTS_EVERY_SECONDS:
            self._counted_at = time.monotonic()
            ended = sum(many for status, many in counts.items() if TurnStatus(status).is_terminal)
            self.event(f"{ended}/{total} ended: " + ", ".join(f"{many} {status}" for status, many in counts.items()))


def print_outcome(rows: Sequence[Row], findings: Sequence[Finding], seconds: float) -> None:
    """Prints the turns by status, the figures, and the checks."""
    by_status = [(status, [row for row in rows if row.status == status]) for status in TurnStatus]
    print_table(
        {
            "status": lambda one: one[0],
            "turns": lambda one: len(one[1]),
            "attempts": lambda one: sum(row.attempt for row in one[1]),
        },
        [one for one in by_status if one[1]],
    )
    # Latencies only of turns that succeeded without a redrive.
    percentiles = quantiles([row.latency_seconds for row in rows if row.succeeded and row.generation == 1], n=20)
    succeeded = sum(row.succeeded for row in rows)
    print_text(
        f"{succeeded} turns answered in {seconds:.1f} s ({succeeded / seconds:.1f} a second); "
        f"accepted to answered: p50 {percentiles[9]:.2f} s, p95 {percentiles[18]:.2f} s"
    )
    for finding in findings:
        print_text(f"{'✓' if finding.holds else '✗'} {finding.claim}: {finding.detail}")
