"""The stack as containers, by Testcontainers: official images of Postgres and Redis, the SQS emulator of our Dockerfile.

Ports are chosen here and bound to loopback, so that a service is found where it was after a restart; an engine chooses a new
one at each start. So the engine must be on this machine.
"""

import http.client
import secrets
import signal
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import docker.errors
import psycopg
import redis
from psycopg.sql import SQL, Composed, Identifier
from testcontainers.community.postgres import PostgresContainer
from testcontainers.community.redis import RedisContainer
from testcontainers.core.config import ConnectionMode, testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.image import DockerImage

from tests.support.probes import wait_until
from turnstile.dev.stack.ports import LOOPBACK, choose_free, is_free
from turnstile.dev.stack.stack import environment_of

ROOT = Path(__file__).parents[3]
POSTGRES = "postgres:18"
REDIS = "redis:8"
EMULATOR = "turnstile-emulator:tests"
START_SECONDS = 90.0
STOP_SECONDS = 30
USER = PASSWORD = DATABASE = "turnstile"


# Where the tests run in a container, Testcontainers would look for the ports on the engine's bridge.
testcontainers_config.connection_mode_override = ConnectionMode.docker_host


class NoEngineError(Exception):
    """No engine that these tests can use; the message is one line."""


def find_engine() -> str:
    """The name and version of the engine that answers. Raises NoEngineError."""
    try:
        engine = DockerClient()
        version = engine.client.version()
    except docker.errors.DockerException as error:
        raise NoEngineError(f"no Docker engine answers ({' '.join(str(error).split())})") from error
    host = engine.host()
    if host not in {"localhost", LOOPBACK}:
        raise NoEngineError(f"the Docker engine is on {host}, and the tests need its ports on this machine's loopback")
    name = (version.get("Platform") or {}).get("Name") or "Docker"
    return f"{name} {version['Version']}"


def build_emulator() -> None:
    """Builds the image of the SQS API from the Dockerfile's target `emulator`."""
    DockerImage(str(ROOT), tag=EMULATOR, clean_up=False, target="emulator").build()


class ContainerProcess:
    def __init__(self, container: DockerContainer) -> None:
        self._container = container

    def signal(self, number: signal.Signals) -> None:
        self._container.get_wrapped_container().kill(number.name)


class ContainerService:
    """One container, on a port of this machine that it keeps."""

    def __init__(
        self,
        container: DockerContainer,
        *,
        scheme: str,
        port: int,
        inside: int,
        answers: Callable[[int], bool],
        clean_stop: signal.Signals = signal.SIGTERM,
        immediate_stop: signal.Signals = signal.SIGKILL,
    ) -> None:
        # Testcontainers has no option for an address of the host, and would open the port to the network.
        container.ports = {f"{inside}/tcp": (LOOPBACK, port)}  # type: ignore[dict-item]
        self._container = container
        self.port = port
        self.address = f"{scheme}://{LOOPBACK}:{port}"
        self.process = ContainerProcess(container)
        self._answers = partial(answers, port)
        self._clean_stop = clean_stop
        self._immediate_stop = immediate_stop
        self._made = False

    def start(self) -> None:
        """Returns when it answers."""
        if self._made:
            self._container.get_wrapped_container().start()
        else:
            self._made = True
            self._container.start()
        wait_until(self._is_well, within=START_SECONDS)

    def _is_well(self) -> bool:
        self._container.reload()
        assert self._container.status == "running", self._container.get_wrapped_container().logs(tail=20).decode()
        return self._answers()

    def stop(self, *, immediate: bool = False) -> bool:
        """Returns when it has ended. True if it was running."""
        self._container.reload()
        if self._container.status != "running":
            return False
        self.process.signal(self._immediate_stop if immediate else self._clean_stop)
        self._container.get_wrapped_container().wait(timeout=STOP_SECONDS)
        # The engine lets go of the port a moment after the container's end.
        wait_until(lambda: is_free(self.port))
        return True

    def restart(self, *, immediate: bool = False) -> None:
        self.stop(immediate=immediate)
        self.start()

    def remove(self) -> None:
        self._container.stop()


class ContainerPostgres(ContainerService):
    """As the tests want it, which is not as production does: without fsync it is quicker, and survives all but the machine."""

    def __init__(self) -> None:
        container = PostgresContainer(POSTGRES, username=USER, password=PASSWORD, dbname=DATABASE)
        # As in the embedded stack: sorted the same on every machine.
        container.with_env("POSTGRES_INITDB_ARGS", "--locale-provider=builtin --builtin-locale=C.UTF-8")
        settings = {"max_connections": "300", "jit": "off", "fsync": "off", "full_page_writes": "off"}
        settings["idle_in_transaction_session_timeout"] = "60s"
        container.with_command([word for name, value in settings.items() for word in ("-c", f"{name}={value}")])
        super().__init__(
            container,
            scheme="postgresql",
            port=choose_free(),
            inside=5432,
            answers=self._lets_in,
            # Fast and immediate shutdown: the default would wait for every client to leave.
            clean_stop=signal.SIGINT,
            immediate_stop=signal.SIGQUIT,
        )
        self.url = self.database_url(DATABASE)

    def database_url(self, database: str) -> str:
        return f"postgresql://{USER}:{PASSWORD}@{LOOPBACK}:{self.port}/{database}"

    def create_database(self, name: str, *, template: str | None = None) -> str:
        statement = SQL("CREATE DATABASE {}").format(Identifier(name))
        if template is not None:
            statement += SQL(" TEMPLATE {}").format(Identifier(template))
        self._administer(statement)
        return self.database_url(name)

    def drop_database(self, name: str) -> None:
        self._administer(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))

    def version(self) -> str:
        with psycopg.connect(self.url) as connection:
            return f"PostgreSQL {connection.info.parameter_status('server_version')}"

    def _administer(self, statement: Composed) -> None:
        with psycopg.connect(self.database_url("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def _lets_in(self, _: int) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


class ContainerRedis(ContainerService):
    def __init__(self) -> None:
        self._redis = RedisContainer(REDIS)
        self._redis.with_command(
            ["--save", "", "--appendonly", "no", "--maxmemory", "2gb", "--maxmemory-policy", "noeviction"]
        )
        super().__init__(self._redis, scheme="redis", port=choose_free(), inside=6379, answers=self._pongs)
        self.url = f"{self.address}/0"

    def version(self) -> str:
        with self._redis.get_client() as client:
            return f"Redis {client.info('server')['redis_version']}"

    def _pongs(self, _: int) -> bool:
        try:
            with self._redis.get_client(socket_timeout=2) as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):
            return False


class ContainerSqs(ContainerService):
    """The emulator. Clients look queues up by the URL that it returns, so its port is the same inside and outside."""

    def __init__(self) -> None:
        port = choose_free()
        container = DockerContainer(EMULATOR).with_envs(GATEWAY_PORT=str(port), MINISTACK_HOST=LOOPBACK)
        super().__init__(container, scheme="http", port=port, inside=port, answers=_is_healthy)

    def version(self) -> str:
        answer = self._container.exec(["python", "-c", "import importlib.metadata as m; print(m.version('ministack'))"])
        return f"ministack {answer.output.decode().strip()}"


class ContainerStack:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.postgres = ContainerPostgres()
        self.redis = ContainerRedis()
        self.sqs = ContainerSqs()
        self._api_key = secrets.token_urlsafe(24)

    def environment(self) -> dict[str, str]:
        """What the embedded stack's says, of these services."""
        return environment_of(self.postgres.url, self.redis.url, self.sqs.address, self._api_key, self.home)

    def versions(self) -> str:
        return ", ".join(service.version() for service in (self.postgres, self.redis, self.sqs))


@contextmanager
def container_stack() -> Iterator[ContainerStack]:
    """One of a test run's own, removed after it."""
    with tempfile.TemporaryDirectory(prefix="turnstile-tests-") as home:
        # Redis fleets start as processes in here, under another account if the tests are root's.
        Path(home).chmod(0o755)
        stack = ContainerStack(Path(home))
        services = (stack.postgres, stack.redis, stack.sqs)
        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(ContainerService.start, services))
            yield stack
        finally:
            for service in services:
                service.remove()


def _is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=2)
    try:
        connection.request("GET", "/_ministack/health")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
