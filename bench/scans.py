"""Times the relay's scans: EXPLAIN ANALYZE of the product's own statements, rolled back.

`tests/statements/plans` asserts how many rows they touch.
"""

import re
from datetime import UTC, datetime
from typing import Any, LiteralString

import psycopg

from bench.stage import Room
from turnstile.statements.lost_turns import MARK_LOST
from turnstile.statements.owed_messages import TAKE_DUE
from turnstile.statements.place_scheduled import PLACE_SCHEDULED

SCANS: dict[str, LiteralString] = {
    "place scheduled": PLACE_SCHEDULED,
    "mark lost": MARK_LOST,
    "take due": TAKE_DUE,
}
PARAMETERS: dict[str, Any] = {
    "stamp": 15.0,
    "resend": 5.0,
    "lease": 30.0,
    "limit": 100,
    "left_out": [],
    "only": None,
    "by": datetime.max.replace(tzinfo=UTC),
    "proven": 30.0,
}
EXECUTION = re.compile(r"Execution Time: ([\d.]+) ms")


def time_scans(room: Room) -> dict[str, float]:
    times = {}
    lines = {"queues": 2 * [room.queue], "deads": [False, True], "limits": 2 * [100], "reaches": 2 * [120.0]}
    with psycopg.connect(room.database_url) as connection:
        for name, statement in SCANS.items():
            for _ in range(2):
                # Twice: the first one reads pages that are not in memory yet.
                rows = connection.execute(f"EXPLAIN (ANALYZE, COSTS OFF) {statement}", PARAMETERS | lines).fetchall()
                connection.rollback()
            found = EXECUTION.search("\n".join(line for (line,) in rows))
            times[name] = float(found[1]) if found else 0.0
    return times
