"""`turnstile dev`: new code answers, turns under way are not lost to it, and everything ends with Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import create_server

import psutil
import psycopg
import pytest

from tests.dev.running_dev import AGENT, SECONDS, RunningDev
from tests.dev.shells import path_without_the_program
from tests.support.probes import wait_until
from turnstile.dev.stack.stack import LocalStack

pytestmark = [pytest.mark.not_on("containers", "it is about the embedded stack"), pytest.mark.long]

Start = Callable[..., RunningDev]

CONNECTED = """
SELECT DISTINCT split_part(application_name, '-', 2), usename::text FROM pg_stat_activity
 WHERE datname = 'postgres' AND application_name ~ '^turnstile-(api|worker|heartbeat)'
"""


@pytest.fixture
def start(stack: LocalStack, tmp_path: Path) -> Iterator[Start]:
    started: list[RunningDev] = []

    def begin(
        code: str = AGENT.format(word="one"),
        until: Callable[[RunningDev], bool] = RunningDev.is_ready,
        **environment: str,
    ) -> RunningDev:
        (tmp_path / "agent.py").write_text(code)
        dev = RunningDev(stack, tmp_path, TURNSTILE_HANDLER="agent:respond", **environment)
        started.append(dev)
        wait_until(lambda: until(dev), within=SECONDS)
        return dev

    yield begin
    for dev in started:
        dev.close()


def answers(dev: RunningDev, word: str) -> bool:
    return dev.ask("reader") == word


def test_new_code_answers_soon_after_it_is_saved(start: Start) -> None:
    dev = start()
    assert dev.ask("alice") == "one"

    dev.write(AGENT.format(word="two"))
    saved_at = time.monotonic()
    wait_until(lambda: answers(dev, "two"), within=SECONDS, every=0.01)
    seconds = time.monotonic() - saved_at

    print(f"new code answered {seconds:.2f} s after it was saved")
    assert "agent.py changed" in dev.messages()


def test_the_api_and_the_worker_connect_as_their_own_roles(start: Start, stack: LocalStack) -> None:
    dev = start()
    assert dev.ask("alice") == "one"

    with psycopg.connect(stack.postgres.url) as superuser:
        connected = {*superuser.execute(CONNECTED).fetchall()}

    assert connected == {("api", "turnstile_api"), ("worker", "turnstile_worker"), ("heartbeat", "turnstile_worker")}


def test_a_turn_under_way_ends_on_the_code_that_began_it(start: Start) -> None:
    dev = start(TURNSTILE_GRACE_SECONDS="60")
    slow = dev.begin_slow("alice")
    old = dev.worker()["pid"]

    dev.write(AGENT.format(word="two"))
    wait_until(lambda: answers(dev, "two"), within=SECONDS)
    still = dev.read(slow)["status"]
    dev.open_gate()
    ended = dev.read(slow, wait_seconds=int(SECONDS))

    assert still == "RUNNING"
    assert (ended["status"], ended["output"], ended["attempt"]) == ("SUCCEEDED", "one", 1)
    assert dev.worker()["pid"] != old
    wait_until(lambda: not psutil.pid_exists(old), within=SECONDS)


def test_a_turn_that_outlasts_the_old_worker_is_handed_back_at_no_charge(start: Start) -> None:
    dev = start(TURNSTILE_GRACE_SECONDS="0.2")
    slow = dev.begin_slow("alice")
    old = dev.worker()["pid"]

    dev.write(AGENT.format(word="two"))
    wait_until(lambda: not psutil.pid_exists(old), within=SECONDS)
    dev.open_gate()
    ended = dev.read(slow, wait_seconds=int(SECONDS))

    assert (ended["status"], ended["output"], ended["attempt"]) == ("SUCCEEDED", "two", 1), dev.messages()


def test_code_with_a_syntax_error_is_shown_and_the_worker_before_it_goes_on(start: Start) -> None:
    dev = start()

    dev.write(AGENT.format(word="two") + "\nprint((")
    wait_until(lambda: dev.worker()["fault"], within=SECONDS)

    fault = dev.worker()["fault"]
    assert re.search(r'File "agent\.py", line \d+', fault)
    assert fault.splitlines()[-1] == "SyntaxError: '(' was never closed"
    assert fault in dev.messages()
    assert "Traceback" not in dev.messages()
    assert dev.ask("alice") == "one"
    dev.write(AGENT.format(word="three"))
    wait_until(lambda: answers(dev, "three"), within=SECONDS)
    assert dev.worker()["fault"] is None


def test_with_code_that_never_loaded_turns_wait_and_none_fails(start: Start) -> None:
    dev = start("import no_such_module\n")
    turn = dev.submit("alice", "Good morning")
    assert "No module named 'no_such_module'" in dev.worker()["fault"]
    assert dev.read(turn)["status"] == "PENDING"

    dev.write(AGENT.format(word="mended"))

    ended = dev.read(turn, wait_seconds=int(SECONDS))
    assert (ended["status"], ended["output"], ended["attempt"]) == ("SUCCEEDED", "mended", 1)


def test_a_killed_workers_turn_goes_on_in_the_next_one(start: Start) -> None:
    dev = start()
    slow = dev.begin_slow("alice")
    killed_at = time.monotonic()

    killed = dev.client.post("/dev/worker/kill", json={}).json()["pid"]
    wait_until(lambda: dev.times_begun() == 2, within=SECONDS)
    seconds = time.monotonic() - killed_at
    dev.open_gate()

    print(f"the killed worker's turn began again after {seconds:.2f} s")
    assert dev.read(slow, wait_seconds=int(SECONDS))["output"] == "one"
    assert dev.worker()["pid"] not in {None, killed}
    assert "SIGKILL" in dev.messages()


def test_what_the_handler_raises_is_readable_in_the_terminal(start: Start) -> None:
    dev = start()

    turn = dev.submit("alice", "raise", wait_seconds=int(SECONDS))

    assert turn["status"] == "FAILED"
    wait_until(lambda: "LookupError: no customer of this name" in dev.messages(), within=SECONDS)
    assert re.search(r'File "agent\.py", line \d+, in respond\n +raise LookupError', dev.messages())


def test_ctrl_c_hands_back_the_turns_and_leaves_nothing_behind(start: Start) -> None:
    dev = start()
    slow = dev.begin_slow("alice")
    asked_at = time.monotonic()
    with dev.client.stream("GET", f"/v1/turns/{slow['id']}/events"):
        dev.process.send_signal(signal.SIGINT)
        code = dev.process.wait(SECONDS)
    seconds = time.monotonic() - asked_at

    print(f"Ctrl-C took {seconds:.2f} s")
    assert code == 0, dev.messages()
    assert "Traceback" not in dev.messages()
    wait_until(lambda: not dev.left_behind(), within=SECONDS)


def test_a_second_ctrl_c_kills_a_worker_that_does_not_end(start: Start) -> None:
    dev = start()
    psutil.Process(dev.worker()["pid"]).suspend()

    dev.process.send_signal(signal.SIGINT)
    wait_until(lambda: "Ctrl-C again kills" in dev.messages(), within=SECONDS)
    dev.process.send_signal(signal.SIGINT)

    assert dev.process.wait(SECONDS) == 0, dev.messages()
    wait_until(lambda: not dev.left_behind(), within=SECONDS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_first_worker_starts_leaves_none_behind(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    dev = start(until=lambda dev: "migrations" in dev.messages())
    wait_until(lambda: psutil.Process(dev.process.pid).children(), within=SECONDS, every=0.001)

    dev.process.send_signal(number)

    assert dev.process.wait(SECONDS) == 0, dev.messages()
    wait_until(lambda: not dev.left_behind(), within=SECONDS)


def test_a_dev_that_is_killed_leaves_no_worker_behind(start: Start) -> None:
    dev = start()

    dev.process.kill()

    wait_until(lambda: not dev.left_behind(), within=SECONDS)


def test_the_lines_that_it_prints_are_few_and_work_in_a_plain_shell(start: Start) -> None:
    dev = start()
    printed = [line for line in dev.messages().splitlines() if line.strip()]
    [begin] = [line.partition(": ")[2] for line in printed if line.startswith("submit ")]
    [submit] = [line for line in printed if " submit chat-1 " in line]
    [program] = re.findall(r"(\S+) submit chat-1", submit)
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    plain = {**os.environ, "PATH": os.pathsep.join(path_without_the_program())}

    def in_shell(line: str) -> str:
        script = ["sh", "-c", f"{begin}\n{line}"]
        return subprocess.run(script, cwd=dev.folder, env=plain, capture_output=True, text=True, check=True).stdout

    answered = in_shell(submit)
    # The API and the commands without it use the same tenant.
    direct = json.loads(in_shell(f"{program} submit chat-1 later --direct --execute-at {tomorrow} --json"))

    assert len(printed) <= 10, printed
    assert f"http://127.0.0.1:{dev.port}/" in dev.messages()
    assert answered.strip() == "one"
    [direct_id] = direct["turn_ids"]
    assert dev.read({"id": direct_id})["status"] == "PENDING"


def test_a_port_that_is_taken_is_one_line_that_names_the_option(tmp_path: Path) -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "turnstile.ops.main",
            "dev",
            "--home",
            str(tmp_path / "home"),
            "--port",
            str(port),
        ]
        refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert refused.returncode == 2
    [line] = refused.stderr.splitlines()
    assert line.startswith(f"turnstile: port {port} is taken by another program")
    assert "--port" in line
    assert not (tmp_path / "home").exists()
