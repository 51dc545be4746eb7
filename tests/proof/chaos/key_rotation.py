"""The keys of contents are replaced in the middle of a run, as docs/sealing.md has operators do it.

Every process learns the next key, and then seals with it. Then `turnstile reseal` brings what is stored under that key, while
faults go on. It is killed in the midst of it, and run again until it says that nothing is left.
"""

import asyncio
import random
import signal
import time

import psycopg
from psycopg.sql import SQL, Identifier

from tests.proof.chaos.applications import Application
from tests.proof.chaos.journal import Journal, now
from tests.proof.chaos.servers import Servers
from tests.proof.chaos.supervisor import Part, Supervisor, pause
from tests.proof.checker.evidence import Fault
from tests.support.sealing import key_text
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.ops.reseal.reseal import reseal_all
from turnstile.ops.reseal.shelves import SHELVES
from turnstile.sealing.contents import Contents
from turnstile.sealing.data_keys import parse_keys
from turnstile.sealing.place import Place, item_column

VARIABLE = "TURNSTILE_SEALING_KEYS_FILE"
STOPS_SECONDS = 8.0
"""A process that SIGTERM has not ended by then is killed, also one that a fault has stopped."""
STARTS_SECONDS = 60.0
BEFORE_KILL_SECONDS = (0.8, 2.5)
"""From the start of a reseal; its imports take some of it."""
PAUSE_SECONDS = "0.2"
"""Between two statements of a reseal: so long that the kill meets it at work."""
MOST_RUNS = 60


class KeyRotation:
    """The keys of one run. Each rotation adds one."""

    def __init__(self, servers: Servers, processes: Supervisor, journal: Journal, seed: int) -> None:
        self._servers = servers
        self._processes = processes
        self._journal = journal
        self._rng = random.Random(f"{seed}/rotation")
        self._ids = ["k1"]
        self._file = journal.folder / "keys.json"
        self.applications: list[Application] = []
        """Those that seal what they submit."""
        self.killed = 0
        """Runs of the reseal that were killed before they had ended."""
        self._write(seal_with="k1")
        servers.base[VARIABLE] = str(self._file)

    async def rotate(self) -> None:
        """Returns when nothing is left under an earlier key."""
        begun, before = now(), self._ids[-1]
        self._ids.append(f"k{len(self._ids) + 1}")
        self._write(seal_with=before)
        await self._restart_all()
        self._write(seal_with=self._ids[-1])
        await self._restart_all()
        self._journal.write(Fault(at=begun, until=now(), kind="keys-rotated", target=self._ids[-1]))
        killed_before = self.killed
        for _ in range(MOST_RUNS):
            was_killed = self.killed > killed_before
            if await self._reseal(kill=not was_killed) == 0 and was_killed:
                return
            # A server may be away, or a row locked.
            await pause(0.5)
        raise RuntimeError(f"no reseal came to its end in {MOST_RUNS} runs")

    def find_left(self) -> list[str]:
        """The columns that have contents under an earlier key, when everything is at rest. What Turnstile itself writes into an
        error is plain, so a reseal may find something to do at any time."""
        found = []
        with psycopg.connect(self._servers.admin_url) as connection:
            for table, column in sorted({(shelf.table, name) for shelf in SHELVES for name, _ in shelf.columns}):
                for key_id in self._ids[:-1]:
                    many = SQL("SELECT count(*) FROM turnstile.{} r WHERE strpos(r.{}::text, %s) > 0")
                    statement = many.format(Identifier(table), Identifier(column))
                    row = connection.execute(statement, (f"sealed:1:{key_id}:",)).fetchone()
                    found += [f"{table}.{column} has {row[0]} under {key_id}"] if row is not None and row[0] else []
        return found

    async def open_stored(self) -> None:
        """Opens all that is stored, for the checker, which has no keys. Raises AssertionError for what can't be opened."""
        contents = _Opening(parse_keys(key_text(self._ids, None)))
        url = self._servers.admin_url
        async with Database(DatabasePlace(url), "chaos", size=1, pinned=True, contents=contents) as database:
            async for page in reseal_all(database, pause_seconds=0.0):
                assert not page.unreadable, page.reasons
        await asyncio.to_thread(_open_audited, url, contents)

    def _write(self, *, seal_with: str) -> None:
        # A process that starts meanwhile reads the old file or the new one.
        draft = self._file.with_suffix(".draft")
        draft.write_text(key_text(self._ids, seal_with))
        draft.replace(self._file)

    async def _restart_all(self) -> None:
        """One after the other, as a deployment. Afterwards no process lives that has read an older file."""
        for application in self.applications:
            application.start_again()
        for part in self._processes.parts.values():
            pid = part.pid
            await self._end(part, pid)
            async with asyncio.timeout(STARTS_SECONDS):
                while part.pid is None:
                    await pause(0.05)

    async def _end(self, part: Part, pid: int | None) -> None:
        if pid is None:
            return
        self._processes.send(part.name, signal.SIGTERM)
        until = time.monotonic() + STOPS_SECONDS
        while part.pid == pid:
            await pause(0.05)
            if time.monotonic() > until:
                self._processes.send(part.name, signal.SIGKILL)

    async def _reseal(self, *, kill: bool) -> int:
        visit = await self._processes.run(
            ["reseal", "--yes", "--pause", PAUSE_SECONDS], await self._servers.variables("reseal")
        )
        if kill:
            await pause(self._rng.uniform(*BEFORE_KILL_SECONDS))
            if not visit.exited.done():
                self._processes.send_to(visit.pid, signal.SIGKILL)
                self.killed += 1
        return await visit.exited


class _Opening(Contents):
    """A reseal with these contents stores everything plain: nothing is under a key of this name, and no key seals."""

    @property
    def sealing_key_id(self) -> str:
        return "none"


def _open_audited(url: str, contents: Contents) -> None:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT n, tenant, session, kind, key, content::text FROM audit_memory WHERE content IS NOT NULL"
        ).fetchall()
        for n, tenant, session, kind, key, content in rows:
            opened = contents.reseal_json(content, Place(tenant, session, None, item_column(kind, key)))
            connection.execute("UPDATE audit_memory SET content = %s::json WHERE n = %s", (opened, n))
