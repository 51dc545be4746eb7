"""`turnstile local`: from nothing to a stack with tables and queues, and back."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.ops.invoke import invoke
from turnstile.dev.home import program_name
from turnstile.dev.stack.stack import down

pytestmark = pytest.mark.not_on("containers", "it is about the embedded stack itself")


@pytest.fixture(autouse=True)
def _shell() -> Iterator[None]:
    """The environment of a shell that knows nothing of any stack. `local up` changes that of its own process."""
    before = dict(os.environ)
    for name in before:
        if name.startswith(("TURNSTILE_", "DATABASE_URL", "REDIS_URL", "AWS_")):
            del os.environ[name]
    yield
    os.environ.clear()
    os.environ.update(before)


def evaluated(script: str) -> dict[str, str]:
    """The environment of a shell that has run the script."""
    dump = f"{script}\n{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
    ran = subprocess.run(["sh", "-c", dump], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(ran.stdout)
    return found


def test_from_nothing_to_a_stack_with_tables_and_queues_and_back(tmp_path: Path) -> None:
    home = tmp_path / "it's home"
    shell = {"TURNSTILE_HOME": str(home)}
    try:
        named = invoke("local", "up", "--home", str(home))
        up = invoke("local", "up", **shell)
        other = evaluated(invoke("local", "env", **shell).out)
        status = invoke("local", "status", "--json", **shell)
        turns = invoke("list", "--json", **other)
        letters = invoke("dlq", "list", "--json", **other)
        with psycopg.connect(other["DATABASE_URL"]) as application:
            [made_in] = application.execute("SELECT current_schema()::text").fetchone() or [None]
        stopped = invoke("local", "down", **shell)
        after = invoke("local", "status", "--json", **shell)
        purged = invoke("local", "down", "--purge", **shell)
    finally:
        down(home, purge=True)

    assert (up.code, up.out) == (0, "")
    # The hint works as it stands, in a shell that knows the home and in one that does not.
    assert hinted(up.err) == f'eval "$({program_name()} local env)"'
    assert hinted(named.err) == f'eval "$({program_name()} local env --home {shlex.quote(str(home))})"'
    assert f"{program_name()} worker --handler turnstile.examples.eliza:respond" in up.err
    assert other["TURNSTILE_HOME"] == str(home)
    # An idle worker's stop waits so long.
    assert other["TURNSTILE_RECEIVE_WAIT_SECONDS"] == "1"
    assert json.loads(status.out)["running"] is True
    assert {service["name"] for service in json.loads(status.out)["services"]} == {"postgres", "redis", "sqs"}
    assert json.loads(turns.out) == {"turns": []}
    assert json.loads(letters.out)["queues"] == [{"queue": "turns", "messages": 0}]
    assert (stopped.code, after.code, purged.code) == (0, 1, 0)
    assert not home.exists()
    # Not where Turnstile's tables are, though the role is called like their schema.
    assert made_in == "public"


def hinted(messages: str) -> str:
    """The line that points a shell at the stack."""
    [line] = [line.strip() for line in messages.splitlines() if "eval" in line]
    return line
