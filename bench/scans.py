"""How the relay's and the reaper's scans are carried out: EXPLAIN ANALYZE of the product's own statements, rolled back."""

import re
from typing import Any, LiteralString

import psycopg

from bench.stage import Room
from turnstile.statements.lost_turns import MARK_LOST
from turnstile.statements.send_due import PLACE_SCHEDULED, TAKE_DUE

SCANS: dict[str, LiteralString] = {
    "place scheduled": PLACE_SCHEDULED,
    "mark lost": MARK_LOST,
    "take due": TAKE_DUE,
}
TOLD: dict[str, Any] = {"stamp": 15.0, "resend": 5.0, "limit": 100, "left_out": [], "only": None}
EXECUTION = re.compile(r"Execution Time: ([\d.]+) ms")


def explain_scans(room: Room) -> dict[str, str]:
    """The plan of each, with times and buffers."""
    plans = {}
    lines = {"queues": 2 * [room.queue], "deads": [False, True], "limits": 2 * [100], "reaches": 2 * [120.0]}
    with psycopg.connect(room.database_url) as connection:
        for name, statement in SCANS.items():
            for _ in range(2):
                # Twice: the first one reads what nobody had read before.
                rows = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {statement}", TOLD | lines).fetchall()
                connection.rollback()
            plans[name] = "\n".join(line for (line,) in rows)
    return plans


def milliseconds(plan: str) -> float:
    """How long it took."""
    found = EXECUTION.search(plan)
    return float(found[1]) if found else 0.0
