"""The embedded stack: started once, reused, mended, stopped. Each test has a stack of its own below pytest's temporary
folder, whose mode is 0700: run as root, this also covers a home that the servers' account cannot enter."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from turnstile.ops.dev.stack.lifecycle import Service
from turnstile.ops.dev.stack.processes import birth_of
from turnstile.ops.dev.stack.stack import LocalStack, LocalStackError, Ports, down, find, up

pytestmark = pytest.mark.not_on("containers", "it is about the embedded stack itself")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "stack"
    yield home
    down(home, purge=True)


@pytest.fixture
def own_stack(home: Path) -> LocalStack:
    """For tests that break it; the others look at the stack of the run, and leave it as they found it."""
    return up(home, durable=False)


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


def redis(stack: LocalStack, *words: str) -> str:
    with socket.create_connection(("127.0.0.1", stack.redis.port), timeout=5) as connection:
        connection.sendall(f"{' '.join(words)}\r\nQUIT\r\n".encode())
        return b"".join(iter(lambda: connection.recv(4096), b"")).decode()


def sqs(stack: LocalStack, action: str, **body: Any) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", stack.sqs.port, timeout=5)
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"AmazonSQS.{action}",
        "Authorization": "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/sqs/aws4_request, Signature=none",
    }
    connection.request("POST", "/", json.dumps(body), headers)
    answer: dict[str, Any] = json.loads(connection.getresponse().read() or b"{}")
    connection.close()
    return answer


def test_all_three_services_answer_after_up(stack: LocalStack) -> None:
    assert stack.is_running()
    assert execute(stack.postgres.url, "SELECT current_user, current_database()") == [("turnstile", "turnstile")]
    assert redis(stack, "PING").startswith("+PONG")
    assert sqs(stack, "CreateQueue", QueueName="turns")["QueueUrl"].startswith(f"{stack.sqs.address}/")


def test_up_on_a_running_stack_returns_it_at_once(stack: LocalStack) -> None:
    before = pids(stack)
    started = time.monotonic()
    again = up(stack.home, durable=False)
    assert time.monotonic() - started < 1
    assert pids(again) == before
    assert again.environment() == stack.environment()


@pytest.mark.parametrize("name", ["postgres", "redis", "sqs"])
def test_a_killed_member_is_started_again_on_the_same_port_and_the_others_are_left_alone(
    own_stack: LocalStack, name: str
) -> None:
    before, addresses = pids(own_stack), ports(own_stack)
    kill(getattr(own_stack, name))
    mended = up(own_stack.home, durable=False)
    assert mended.is_running()
    assert ports(mended) == addresses
    assert {other for other, pid in pids(mended).items() if pid != before[other]} == {name}


def test_a_wholly_killed_stack_comes_back_with_its_committed_rows(own_stack: LocalStack) -> None:
    execute(own_stack.postgres.url, "CREATE TABLE kept AS SELECT 7 AS n")
    for service in own_stack.services:
        kill(service)
    assert execute(up(own_stack.home, durable=False).postgres.url, "SELECT n FROM kept") == [(7,)]


def test_down_leaves_no_process_and_a_second_down_has_nothing_to_do(own_stack: LocalStack) -> None:
    before = pids(own_stack)
    assert down(own_stack.home) is True
    assert set(pids(own_stack).values()) == {None}
    assert [birth_of(pid) for pid in before.values() if pid is not None] == [None, None, None]
    assert down(own_stack.home) is False


def test_down_where_there_has_never_been_a_stack_does_nothing(tmp_path: Path) -> None:
    assert down(tmp_path / "nothing") is False
    assert not (tmp_path / "nothing").exists()
    assert find(tmp_path / "nothing") is None


def test_rows_queues_keys_and_ports_survive_down_and_up(home: Path) -> None:
    stack = up(home, durable=True)
    execute(stack.postgres.url, "CREATE TABLE kept AS SELECT 7 AS n")
    url = sqs(stack, "CreateQueue", QueueName="dead")["QueueUrl"]
    sqs(stack, "SendMessage", QueueUrl=url, MessageBody="letter")
    environment = stack.environment()
    down(home)
    again = up(home, durable=True)
    assert again.environment() == environment
    assert execute(again.postgres.url, "SELECT n FROM kept") == [(7,)]
    assert sqs(again, "ReceiveMessage", QueueUrl=url)["Messages"][0]["Body"] == "letter"


def test_a_stack_that_is_down_moves_when_its_ports_are_taken_and_its_queues_move_along(home: Path) -> None:
    stack = up(home, durable=True)
    sqs(stack, "CreateQueue", QueueName="turns")
    before = ports(stack)
    down(home)
    with socket.create_server(("127.0.0.1", before["sqs"])), socket.create_server(("127.0.0.1", before["postgres"])):
        moved = up(home, durable=True)
    assert moved.sqs.port != before["sqs"]
    assert moved.postgres.port != before["postgres"]
    assert moved.redis.port == before["redis"]
    assert sqs(moved, "GetQueueUrl", QueueName="turns")["QueueUrl"].startswith(f"{moved.sqs.address}/")


def test_a_port_that_was_asked_for_and_is_taken_is_an_error_that_names_it(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(LocalStackError, match=f"port {port} of redis is taken"):
            up(home, durable=False, ports=Ports(redis=port))


def test_another_port_than_the_running_one_is_refused(stack: LocalStack) -> None:
    with pytest.raises(LocalStackError, match="redis runs on port"):
        up(stack.home, durable=False, ports=Ports(redis=stack.redis.port + 1))


def test_two_ups_at_once_make_one_stack(home: Path) -> None:
    program = (
        "import sys, json; from pathlib import Path; from turnstile.ops.dev.stack.stack import up\n"
        "stack = up(Path(sys.argv[1]), durable=False)\n"
        "print(json.dumps([stack.environment(), [service.process.pid() for service in stack.services]]))"
    )

    def another_process(_: int) -> str:
        root = Path(__file__).parents[3]
        command = [sys.executable, "-c", program, str(home)]
        return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout

    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(another_process, range(3)))
    assert len(set(answers)) == 1


def test_the_stack_outlives_the_process_that_started_it_and_keeps_none_of_its_files_open(home: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from turnstile.ops.dev.stack.stack import up\n"
        "os.set_inheritable(os.pipe()[1], True); up(Path(sys.argv[1]), durable=False)"
    )
    # Returns only when nobody holds the pipe of its output any more: a server that inherited it would block this.
    command = [sys.executable, "-c", program, str(home)]
    subprocess.run(command, cwd=Path(__file__).parents[3], check=True, capture_output=True, timeout=60)
    stack = find(home)
    assert stack is not None
    assert stack.is_running()


def test_the_environment_has_all_that_a_process_needs(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "intranet.example")
    environment = stack.environment()
    key = environment["TURNSTILE_API_KEY"]
    assert len(key) >= 24
    assert environment == {
        "DATABASE_URL": f"postgresql://turnstile@127.0.0.1:{stack.postgres.port}/turnstile",
        "REDIS_URL": f"redis://127.0.0.1:{stack.redis.port}/0",
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
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PGSSLMODE", "require")
    monkeypatch.setenv("PGDATA", "/nonexistent")
    assert up(home, durable=False).is_running()


def test_the_state_file_with_the_key_is_for_its_owner_alone(stack: LocalStack) -> None:
    assert (stack.home / "stack.json").stat().st_mode & 0o077 == 0


def test_the_logs_are_for_their_owner_alone(stack: LocalStack) -> None:
    modes = {log.name: log.stat().st_mode & 0o777 for log in stack.home.glob("*.log")}

    assert modes == {"postgres.log": 0o600, "redis.log": 0o600, "sqs.log": 0o600}


def test_status_tells_a_stopped_service_from_a_running_one(stack: LocalStack) -> None:
    stack.redis.stop()
    try:
        status = stack.status()
    finally:
        stack.redis.start()
    assert (status["redis"].running, status["redis"].pid, status["redis"].version) == (False, None, None)
    assert status["postgres"].running
    assert (status["postgres"].version or "").startswith("18")


def test_redis_can_be_stopped_for_a_while_and_comes_back_empty_on_the_same_port(stack: LocalStack) -> None:
    redis(stack, "SET", "lock", "mine")
    redis(stack, "SAVE")
    address = stack.redis.address
    assert stack.redis.stop() is True
    with pytest.raises(ConnectionRefusedError):
        redis(stack, "PING")
    stack.redis.start()
    assert stack.redis.address == address
    assert redis(stack, "GET", "lock").startswith("$-1")
    assert "noeviction" in redis(stack, "CONFIG", "GET", "maxmemory-policy")


def test_an_immediate_restart_of_postgres_keeps_what_was_committed_and_cuts_connections(stack: LocalStack) -> None:
    url = stack.postgres.url
    execute(url, "CREATE TABLE kept (n int)")
    with psycopg.connect(url) as held:
        held.execute("INSERT INTO kept VALUES (1)")
        held.commit()
        held.execute("INSERT INTO kept VALUES (2)")
        before = stack.postgres.process.pid()
        stack.postgres.restart(immediate=True)
        with pytest.raises(psycopg.OperationalError):
            held.execute("SELECT 1")
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
    pid_file = own_stack.home / "redis.pid"
    record = json.loads(pid_file.read_text())
    # This very process now has the pid: it must neither be taken for Redis nor be killed.
    pid_file.write_text(json.dumps({**record, "pid": os.getpid()}))
    assert own_stack.redis.process.pid() is None
    assert own_stack.redis.stop() is False
    mended = up(own_stack.home, durable=False)
    assert mended.redis.process.pid() not in (None, os.getpid())


def test_a_server_whose_pid_file_was_lost_is_replaced(own_stack: LocalStack) -> None:
    execute(own_stack.postgres.url, "CREATE TABLE kept AS SELECT 7 AS n")
    orphan = own_stack.postgres.process.pid()
    assert orphan is not None
    (own_stack.home / "postgres.pid").unlink()
    for service in (own_stack.redis, own_stack.sqs):
        service.stop()
    again = up(own_stack.home, durable=False)
    assert again.postgres.process.pid() != orphan
    assert execute(again.postgres.url, "SELECT n FROM kept") == [(7,)]


def test_a_service_that_cannot_start_shows_the_end_of_its_log(own_stack: LocalStack) -> None:
    own_stack.postgres.stop()
    control = own_stack.quarters.folder / "postgres" / "data" / "global" / "pg_control"
    control.rename(control.with_name("pg_control.away"))
    with pytest.raises(LocalStackError, match=r"postgres ended while starting(?s:.*)pg_control"):
        own_stack.postgres.start()


def test_an_unreadable_state_file_does_not_lose_the_data(own_stack: LocalStack) -> None:
    execute(own_stack.postgres.url, "CREATE TABLE kept AS SELECT 7 AS n")
    (own_stack.home / "stack.json").write_text("{")
    assert execute(up(own_stack.home, durable=False).postgres.url, "SELECT n FROM kept") == [(7,)]


def test_purge_removes_everything_of_the_stack_and_nothing_else(own_stack: LocalStack) -> None:
    elsewhere = own_stack.quarters.folder
    (own_stack.home / "notes.txt").write_text("mine")
    assert down(own_stack.home, purge=True) is True
    assert [path.name for path in own_stack.home.iterdir()] == ["notes.txt"]
    assert elsewhere == own_stack.home or not elsewhere.exists()
    assert find(own_stack.home) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers under another account")
def test_as_root_the_servers_have_no_privileges(stack: LocalStack) -> None:
    for service in (stack.postgres, stack.redis):
        assert Path(f"/proc/{service.process.pid()}").stat().st_uid != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_an_ordinary_user_starts_and_stops_a_stack_of_his_own() -> None:
    program = (
        "import os, sys, tempfile; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "from pathlib import Path; from turnstile.ops.dev.stack.stack import up, down\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    home = Path(folder) / 'home'\n"
        "    try:\n"
        "        stack = up(home, durable=False)\n"
        "        assert stack.is_running() and stack.quarters.account is None\n"
        "    finally:\n"
        "        assert down(home, purge=True) and not home.exists()\n"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    root = Path(__file__).parents[3]
    get_there = ["/bin/sh", "-c", f"cd '{root}' && '{sys.executable}' -c 'import turnstile.ops.dev.stack.stack'"]
    if subprocess.run(
        get_there, cwd="/", env=environment, user=65534, group=65534, extra_groups=[], check=False
    ).returncode:
        pytest.skip("an ordinary user cannot get to this checkout or its Python")
    outcome = subprocess.run(
        [sys.executable, "-c", program], cwd=root, env=environment, check=False, capture_output=True, text=True
    )
    assert outcome.returncode == 0, outcome.stderr
