"""`python -m tests.proof.chaos.recovery`: a worker is killed, and how soon its turns begin and end again. Default settings.

Each case runs on a stack of its own. Exit code 1: a lost turn began again later than a lease plus five seconds after the kill
although slots were free, they ended later than 1.3 times the ideal, a turn was claimed in vain, a living worker lost one, or a
turn that kills its workers ended another one.
"""

import argparse
import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.support.probes import wait_until
from turnstile import Context, Turn, handler
from turnstile.ops.dev.stack.stack import down, up

PROMISED_SECONDS = 5.0
"""Beside the lease."""
TIMES_THE_IDEAL = 1.3
PATIENCE_SECONDS = 5400.0
"""Turns that one more crash would end run one at a time in a worker: a dozen of 300 s take a while."""

FIGURES = """
SELECT count(*) FILTER (WHERE crashes > 0) AS lost,
       max(extract(epoch FROM started_at)) FILTER (WHERE crashes > 0) AS begun,
       count(*) FILTER (WHERE status = 'SUCCEEDED') AS ended,
       (SELECT count(*) FROM turn_attempts WHERE outcome = 'released') AS in_vain
  FROM turns WHERE session_id LIKE 'lost-%'
"""


@handler(timeout=900.0)
async def sleep(turn: Turn, _: Context) -> str:
    """The handler: as long as the turn says. A pill kills its worker after a second."""
    if turn.metadata.get("kills"):
        await asyncio.sleep(1.0)
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(float(str(turn.metadata["seconds"])))
    return "slept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What one worker has when it is killed, and what is left."""

    name: str
    turns: int
    seconds: float
    survivors: int
    lease_seconds: float = 30.0
    slots: int = 64
    backlog: int = 0
    """Turns of four seconds that wait behind those."""
    locked_seconds: float = 0.0
    """Instead of a kill: a lock on the whole table of turns, for so long."""
    pills: int = 0
    """Instead of a kill: turns beside the others that kill their workers, which are started again."""


CASES = (
    Case(name="64 turns of 30 s, three survivors", turns=64, seconds=30.0, survivors=3),
    Case(name="20 turns of 10 s, one survivor", turns=20, seconds=10.0, survivors=1),
    Case(
        name="8 turns behind a backlog, lease 6 s, one survivor of 8 slots",
        turns=8, seconds=60.0, survivors=1, lease_seconds=6.0, slots=8, backlog=160,
    ),
    Case(name="no kill: the table is locked for 70 s", turns=40, seconds=100.0, survivors=3, locked_seconds=70.0),
    Case(name="a pill and 63 neighbours of 300 s", turns=63, seconds=300.0, survivors=3, slots=16, pills=1),
    Case(name="two pills and 62 neighbours of 300 s", turns=62, seconds=300.0, survivors=3, slots=16, pills=2),
)  # fmt: skip


class Scene:
    """One case on its stack."""

    def __init__(self, case: Case, environment: dict[str, str], folder: Path) -> None:
        self._case = case
        self._folder = folder
        self._environment = {
            **os.environ, **environment,
            "TURNSTILE_HANDLER": "tests.proof.chaos.recovery:sleep",
            "TURNSTILE_LEASE_SECONDS": str(case.lease_seconds),
            "TURNSTILE_CONCURRENCY": str(case.slots),
            "TURNSTILE_LOG_FORMAT": "json",
        }  # fmt: skip
        self._database = psycopg.connect(environment["DATABASE_URL"], autocommit=True, row_factory=dict_row)
        self._workers: list[subprocess.Popen[bytes]] = []
        self._numbers = itertools.count()

    def play(self) -> tuple[dict[str, Any], bool]:
        """The figures, and whether they are as promised."""
        case = self._case
        if case.pills:
            return self._poison()
        victim = self._start()
        self._workers.append(victim)
        self._submit("lost", case.turns, case.seconds)
        self._until(lambda: self._count("status = 'RUNNING'") == case.turns)
        self._submit("behind", case.backlog, 4.0)
        for _ in range(case.survivors):
            self._workers.append(self._start())
        self._until(lambda: self._count("true", "workers") == 1 + case.survivors)
        if case.locked_seconds:
            return self._lock()
        victim.kill()
        return self._recover(time.time())

    def _recover(self, killed_at: float) -> tuple[dict[str, Any], bool]:
        case = self._case
        self._until(lambda: self._figures()["lost"] == case.turns)
        if not case.backlog:
            self._until(lambda: self._figures()["ended"] == case.turns)
        ended = time.time() - killed_at
        found = self._figures()
        begun = float(found["begun"]) - killed_at
        ideal = case.lease_seconds + PROMISED_SECONDS + case.seconds
        figures = {"begun_after": round(begun, 1), "claims_in_vain": found["in_vain"]}
        kept = begun <= case.lease_seconds + PROMISED_SECONDS and not found["in_vain"]
        if not case.backlog:
            figures |= {"ended_after": round(ended, 1), "ideal": ideal}
            kept = kept and ended <= TIMES_THE_IDEAL * ideal
        return figures, kept

    def _lock(self) -> tuple[dict[str, Any], bool]:
        with psycopg.connect(self._environment["DATABASE_URL"]) as other:
            other.execute("LOCK TABLE turns IN SHARE MODE")
            other.execute("SELECT pg_sleep(%s)", [self._case.locked_seconds])
        self._until(lambda: self._figures()["ended"] == self._case.turns)
        lost = self._figures()["lost"]
        return {"taken_from_the_living": lost}, lost == 0

    def _poison(self) -> tuple[dict[str, Any], bool]:
        case = self._case
        # All slots but those of the pills are taken: whichever worker a pill kills, it has neighbours.
        self._workers += [self._start() for _ in range(1 + case.survivors)]
        self._submit("lost", case.turns, case.seconds)
        self._until(lambda: self._count("status = 'RUNNING'") == case.turns)
        self._submit("pill", case.pills, 0.0, kills=True)
        began = time.time()

        def all_ended() -> bool:
            for place, worker in enumerate(self._workers):
                if worker.poll() is not None:
                    self._workers[place] = self._start()
            return self._count("status IN ('SUCCEEDED', 'FAILED')") == case.turns + case.pills

        self._until(all_ended)
        pills = self._count("session_id LIKE 'pill-%' AND status = 'FAILED' AND error_class = 'crash_loop'")
        failed = self._count("session_id LIKE 'lost-%' AND status <> 'SUCCEEDED'")
        figures = {
            "pills_ended": pills,
            "neighbours_failed": failed,
            "neighbours_lost": self._count_lost(),
            "ended_after": round(time.time() - began, 1),
        }
        return figures, pills == case.pills and not failed

    def end(self) -> None:
        for worker in self._workers:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        self._database.close()

    def _start(self) -> subprocess.Popen[bytes]:
        with (self._folder / f"workers-{next(self._numbers)}.log").open("wb") as log:
            command = [sys.executable, "-m", "turnstile.ops.cli", "worker"]
            return subprocess.Popen(command, env=self._environment, stdout=log, stderr=subprocess.STDOUT)

    def _submit(self, name: str, turns: int, seconds: float, *, kills: bool = False) -> None:
        metadata = {"seconds": seconds, "kills": kills}
        lines = [{"session_id": f"{name}-{number}", "input": "x", "metadata": metadata} for number in range(turns)]
        if lines:
            file = self._folder / f"{name}.jsonl"
            file.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
            command = [sys.executable, "-m", "turnstile.ops.cli", "submit", "--direct", "--file", str(file)]
            subprocess.run(command, env=self._environment, check=True, capture_output=True)

    def _figures(self) -> dict[str, Any]:
        found = self._database.execute(FIGURES).fetchone()
        assert found is not None
        return found

    def _count_lost(self) -> int:
        of_neighbours = "turn_id IN (SELECT id FROM turns WHERE session_id LIKE 'lost-%')"
        return self._count(f"outcome = 'lost' AND {of_neighbours}", "turn_attempts")

    def _count(self, where: str, table: str = "turns") -> int:
        found = self._database.execute(f"SELECT count(*) AS many FROM {table} WHERE {where}").fetchone()  # type: ignore[call-overload]
        assert found is not None
        return int(found["many"])

    def _until(self, condition: Callable[[], bool]) -> None:
        wait_until(condition, within=PATIENCE_SECONDS)


@contextmanager
def own_stack() -> Iterator[tuple[dict[str, str], Path]]:
    """A stack with its schema and queues, in a folder of its own; its environment."""
    with tempfile.TemporaryDirectory(prefix="turnstile-recovery-") as folder:
        home = Path(folder)
        environment = up(home, durable=False).environment()
        try:
            for command in (["migrate"], ["queues", "create"]):
                subprocess.run(
                    [sys.executable, "-m", "turnstile.ops.cli", *command],
                    env={**os.environ, **environment}, check=True, capture_output=True,
                )  # fmt: skip
            yield environment, home
        finally:
            down(home)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make recovery", description=__doc__, allow_abbrev=False)
    parser.add_argument("--only", default="", metavar="WORDS", help="cases whose name contains this")
    told = parser.parse_args()
    kept = []
    for case in CASES:
        if told.only not in case.name:
            continue
        with own_stack() as (environment, folder):
            scene = Scene(case, environment, folder)
            try:
                figures, as_promised = scene.play()
            finally:
                scene.end()
        kept.append(as_promised)
        said = ", ".join(f"{name} {value}" for name, value in figures.items())
        print(f"{case.name}: {said}: {'as promised' if as_promised else 'NOT as promised'}", flush=True)
    return 0 if kept and all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
