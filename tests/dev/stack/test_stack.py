"""The embedded stack: started once, reused, mended, stopped. Its home is below pytest's temporary folder, whose mode is 0700:
run as root, this also covers a home that the servers' account cannot enter."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from redis import AuthenticationError, Redis
from redis import ConnectionError as RedisConnectionError
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.conftest import sqs_client
from turnstile.dev.stack import lifecycle
from turnstile.dev.stack.lifecycle import Service
from turnstile.dev.stack.ports import is_free
from turnstile.dev.stack.processes import LocalStackError
from turnstile.dev.stack.stack import LocalStack, down, find, up

pytestmark = pytest.mark.not_on("containers", "it is about the embedded stack itself")


@pytest.fixture(scope="module")
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("stack")
    yield home
    down(home, purge=True)


@pytest.fixture
def own_stack(own_home: Path) -> LocalStack:
    """For tests that break it; the others look at the stack of the run, and leave it as they found it."""
    return up(own_home, durable=False)


def pids(stack: LocalStack) -> dict[str, int | None]:
    return {service.name: service.process.pid() for service in stack.services}


def ports(stack: LocalStack) -> dict[str, int]:
    return {service.name: service.port for service in stack.services}


def kill(service: Service) -> None:
    service.process.signal(signal.SIGKILL)
    assert service.process.wait_until_gone(10)


def execute(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def redis_client(stack: LocalStack) -> Iterator[Any]:
    with Redis.from_url(stack.redis.url, retry=Retry(NoBackoff(), 0), decode_responses=True) as client:
        yield client


def test_all_three_services_answer_after_up(stack: LocalStack) -> None:
    assert stack.is_running()
    assert execute(stack.postgres.url, "SELECT current_user::text") == [("turnstile",)]
    with redis_client(stack) as client:
        assert client.ping()
    assert sqs_client(stack).create_queue(QueueName="turns")["QueueUrl"].startswith(f"{stack.sqs.address}/")


def test_up_on_a_running_stack_returns_it_as_it_is(stack: LocalStack) -> None:
    before = pids(stack)
    again = up(stack.home, durable=False)
    assert pids(again) == before
    assert again.environment() == stack.environment()


def test_a_killed_member_is_started_again_on_the_same_port_and_the_others_are_left_alone(own_stack: LocalStack) -> None:
    before, addresses = pids(own_stack), ports(own_stack)
    kill(own_stack.redis)
    mended = up(own_stack.home, durable=False)
    assert mended.is_running()
    assert ports(mended) == addresses
    assert {other for other, pid in pids(mended).items() if pid != before[other]} == {"redis"}


def test_a_wholly_killed_stack_comes_back_with_its_committed_rows(own_stack: LocalStack) -> None:
    execute(own_stack.postgres.url, "CREATE TABLE kept AS SELECT 7 AS n")
    for service in own_stack.services:
        kill(service)
    assert execute(up(own_stack.home, durable=False).postgres.url, "SELECT n FROM kept") == [(7,)]


def test_down_leaves_no_process_and_a_second_down_has_nothing_to_do(own_stack: LocalStack) -> None:
    before = [pid for pid in pids(own_stack).values() if pid is not None]
    assert down(own_stack.home) is True
    assert set(pids(own_stack).values()) == {None}
    assert [pid for pid in before if psutil.pid_exists(pid)] == []
    assert down(own_stack.home) is False


def test_down_where_there_has_never_been_a_stack_does_nothing(tmp_path: Path) -> None:
    assert down(tmp_path / "nothing") is False
    assert not (tmp_path / "nothing").exists()
    assert find(tmp_path / "nothing") is None


def test_key_and_addresses_survive_down_and_up(own_stack: LocalStack) -> None:
    environment = own_stack.environment()
    down(own_stack.home)
    again = find(own_stack.home)
    assert again is not None
    assert again.environment() == environment
    assert up(own_stack.home, durable=False).environment() == environment


def test_a_stack_that_is_down_moves_where_its_ports_are_taken(own_stack: LocalStack) -> None:
    before = ports(own_stack)
    down(own_stack.home)
    with socket.create_server(("127.0.0.1", before["sqs"])):
        moved = up(own_stack.home, durable=False)
    assert {name for name, port in ports(moved).items() if port != before[name]} == {"sqs"}
    assert moved.is_running()


def test_a_service_whose_port_is_taken_names_it(own_stack: LocalStack) -> None:
    own_stack.redis.stop()
    with (
        socket.create_server(("127.0.0.1", own_stack.redis.port)),
        pytest.raises(LocalStackError, match=f"port {own_stack.redis.port} of redis is taken"),
    ):
        own_stack.redis.start()


def test_a_restart_waits_for_the_sockets_of_the_process_that_it_killed(
    own_stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a busy kernel does: the process counts as gone, and its port is still open for a moment.
    answers = iter([False, False])
    monkeypatch.setattr(lifecycle, "is_free", lambda port: next(answers, True) and is_free(port))
    own_stack.redis.restart(immediate=True)
    assert own_stack.redis.status().running


def test_two_ups_at_once_make_one_stack_that_outlives_both(own_stack: LocalStack) -> None:
    down(own_stack.home)
    program = (
        "import sys, json; from pathlib import Path; from turnstile.dev.stack.stack import up\n"
        "stack = up(Path(sys.argv[1]), durable=False)\n"
        "print(json.dumps([stack.environment(), [service.process.pid() for service in stack.services]]))"
    )

    def another_process(_: int) -> str:
        # Returns when the pipe of its output is closed: a server that inherited it would block this.
        command = [sys.executable, "-c", program, str(own_stack.home)]
        root = Path(__file__).parents[3]
        return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True, timeout=60).stdout

    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(another_process, range(2)))
    assert len(set(answers)) == 1
    stack = find(own_stack.home)
    assert stack is not None
    assert stack.is_running()


def test_the_environment_has_all_that_a_process_needs(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "intranet.example")
    environment = stack.environment()
    key = environment["TURNSTILE_API_KEY"]
    kept = json.loads((stack.home / "stack.json").read_text())
    of = kept["role_passwords"]
    assert min(map(len, of.values())) >= 24
    assert min(len(kept[name]) for name in ("api_key", "postgres_password", "redis_password")) >= 24
    assert environment == {
        "DATABASE_URL": f"postgresql://turnstile_operator:{of['operator']}@127.0.0.1:{stack.postgres.port}/postgres",
        "TURNSTILE_DATABASE_ROLES": json.dumps(
            {
                "owner": f"turnstile_schema:{of['owner']}",
                "api": f"turnstile_api:{of['api']}",
                "worker": f"turnstile_worker:{of['worker']}",
                "relay": f"turnstile_relay:{of['relay']}",
            }
        ),
        "REDIS_URL": f"redis://default:{kept['redis_password']}@127.0.0.1:{stack.redis.port}/0",
        "AWS_ENDPOINT_URL_SQS": f"http://127.0.0.1:{stack.sqs.port}",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "NO_PROXY": "intranet.example,127.0.0.1,localhost",
        "no_proxy": "intranet.example,127.0.0.1,localhost",
        "TURNSTILE_API_KEYS": f"default:{key}",
        "TURNSTILE_API_KEY": key,
        "TURNSTILE_HOME": str(stack.home),
    }


def test_proxies_and_postgres_settings_of_the_users_shell_do_not_matter(
    own_stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PGSSLMODE", "require")
    monkeypatch.setenv("PGDATA", "/nonexistent")
    for service in own_stack.services:
        service.stop()
    assert up(own_stack.home, durable=False).is_running()


def test_the_key_and_the_logs_are_for_their_owner_alone(stack: LocalStack) -> None:
    files = [stack.home / "stack.json", *stack.home.glob("*.log")]

    assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 4


def test_nobody_gets_in_without_a_password_and_no_process_shows_one(stack: LocalStack) -> None:
    wrong = make_conninfo(stack.postgres.url, password="wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)
    with Redis(port=stack.redis.port) as client, pytest.raises(AuthenticationError):
        client.ping()

    kept = json.loads((stack.home / "stack.json").read_text())
    secrets = {text for name, text in kept.items() if name.endswith(("password", "key"))}
    shown = [word for pid in pids(stack).values() for word in psutil.Process(pid).cmdline()]
    assert len(secrets) == 3
    assert [word for word in shown if any(secret in word for secret in secrets)] == []


def test_a_folder_of_somebody_else_is_refused(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    up(own_home, durable=False)
    monkeypatch.setattr(os, "geteuid", lambda: own_home.stat().st_uid + 1)

    for use in (up, down, find):
        with pytest.raises(LocalStackError, match="belongs to another account"):
            use(own_home)


@pytest.mark.parametrize("name", ["stack.lock", "stack.json.new", "redis.pid", "redis.log"])
def test_no_file_of_somebody_else_is_written_through_a_link(own_home: Path, tmp_path: Path, name: str) -> None:
    down(own_home)
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    (own_home / name).unlink(missing_ok=True)
    (own_home / name).symlink_to(victim)
    try:
        with suppress(LocalStackError, OSError):
            up(own_home, durable=False)
        assert victim.read_text() == "theirs"
    finally:
        (own_home / name).unlink(missing_ok=True)


def test_status_distinguishes_a_stopped_service_from_a_running_one(stack: LocalStack) -> None:
    stack.redis.stop()
    try:
        status = stack.status()
    finally:
        stack.redis.start()
    assert (status["redis"].running, status["redis"].pid, status["redis"].version) == (False, None, None)
    assert status["postgres"].running
    assert (status["postgres"].version or "").startswith("18")


def test_redis_can_be_stopped_for_a_while_and_comes_back_empty_on_the_same_port(stack: LocalStack) -> None:
    address = stack.redis.address
    with redis_client(stack) as client:
        client.set("lock", "mine")
        client.save()
        assert stack.redis.stop() is True
        with pytest.raises(RedisConnectionError):
            client.ping()
        stack.redis.start()
        assert stack.redis.address == address
        assert client.get("lock") is None
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("maxmemory") == {"maxmemory": str(2 * 1024**3)}


def test_an_immediate_restart_of_postgres_keeps_what_was_committed_and_cuts_connections(stack: LocalStack) -> None:
    url = stack.postgres.url
    execute(url, "CREATE TABLE kept (n int)")
    with psycopg.connect(url) as open_session:
        open_session.execute("INSERT INTO kept VALUES (1)")
        open_session.commit()
        open_session.execute("INSERT INTO kept VALUES (2)")
        before = stack.postgres.process.pid()
        stack.postgres.restart(immediate=True)
        with pytest.raises(psycopg.OperationalError):
            open_session.execute("SELECT 1")
    assert stack.postgres.process.pid() != before
    assert stack.postgres.url == url
    assert execute(url, "SELECT n FROM kept") == [(1,)]


def test_databases_are_made_from_a_template_and_dropped_while_in_use(stack: LocalStack) -> None:
    template = stack.postgres.create_database("template_of_ours")
    execute(template, "CREATE TABLE seeded AS SELECT 7 AS n")
    url = stack.postgres.create_database("of-a-test", template="template_of_ours")
    assert execute(url, "SELECT n FROM seeded") == [(7,)]
    with pytest.raises(LocalStackError, match="already exists"):
        stack.postgres.create_database("of-a-test")
    with psycopg.connect(url):
        stack.postgres.drop_database("of-a-test")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        execute(url, "SELECT 1")
    stack.postgres.drop_database("of-a-test")


def test_a_recycled_pid_is_not_mistaken_for_a_server(own_stack: LocalStack) -> None:
    kill(own_stack.redis)
    # This very process now has the pid: it must neither be taken for Redis nor be killed.
    (own_stack.home / "redis.pid").write_text(str(os.getpid()))
    assert own_stack.redis.process.pid() is None
    assert own_stack.redis.stop() is False


def test_a_service_that_cannot_start_shows_the_end_of_its_log(own_stack: LocalStack) -> None:
    own_stack.postgres.stop()
    control = own_stack.run_as.folder / "postgres" / "data" / "global" / "pg_control"
    control.rename(control.with_name("pg_control.away"))
    with pytest.raises(LocalStackError, match=r"postgres ended while starting(?s:.*)pg_control"):
        own_stack.postgres.start()
    control.with_name("pg_control.away").rename(control)


def test_a_state_file_of_another_version_is_used_for_what_it_has(own_stack: LocalStack) -> None:
    file = own_stack.home / "stack.json"
    saved = json.loads(file.read_text())
    del saved["api_key"]
    file.write_text(json.dumps({**saved, "unknown": 1}))

    again = up(own_stack.home, durable=False)

    assert (pids(again), ports(again)) == (pids(own_stack), ports(own_stack))
    assert json.loads(file.read_text()).keys() == {*saved, "api_key"}


@pytest.mark.parametrize("damaged", ["{", "[]"])
def test_a_damaged_state_file_is_an_error_whose_advice_stops_the_servers(own_stack: LocalStack, damaged: str) -> None:
    file = own_stack.home / "stack.json"
    file.write_text(damaged)
    with pytest.raises(LocalStackError, match=f"`turnstile local down`, remove {file}"):
        up(own_stack.home)
    assert down(own_stack.home) is True
    assert set(pids(own_stack).values()) == {None}
    file.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers under another account")
def test_as_root_the_servers_have_no_privileges(stack: LocalStack) -> None:
    for service in (stack.postgres, stack.redis):
        assert Path(f"/proc/{service.process.pid()}").stat().st_uid != 0


def test_purge_removes_everything_of_the_stack_and_nothing_else(own_stack: LocalStack) -> None:
    elsewhere = own_stack.run_as.folder
    (own_stack.home / "notes.txt").write_text("mine")
    assert down(own_stack.home, purge=True) is True
    assert [path.name for path in own_stack.home.iterdir()] == ["notes.txt"]
    assert elsewhere == own_stack.home or not elsewhere.exists()
    assert find(own_stack.home) is None
