"""A user's own modules next to the handler may have any name, also that of a folder of the product (ADR 0031)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Product, process_environment

NAMES = ("worker", "producer", "relay", "ops", "memory", "turns", "examples", "migrations", "bench")

HANDLER = """
import memory
import ops
import producer
import relay
from migrations import WORD
from turnstile import Reject, Retry, Snooze, handler


@handler(timeout=5)
async def respond(turn, ctx):
    return [memory.WORD, ops.WORD, producer.WORD, relay.WORD, WORD]
"""

TEST = """
from worker import respond


def test_it() -> None:
    assert respond.timeout == 5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a user keeps a handler, with modules of its own."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(f'WORD = "{name}"\n')
    (tmp_path / "migrations.py").unlink()
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations" / "__init__.py").write_text('WORD = "migrations"\n')
    (tmp_path / "worker.py").write_text(HANDLER)
    (tmp_path / "test_worker.py").write_text(TEST)
    return tmp_path


@pytest.fixture
def own_worker(product: Product, folder: Path) -> Iterator[None]:
    """`turnstile worker`, as a user starts it there."""
    program = Path(sys.executable).with_name("turnstile")
    environment = {**process_environment(product.settings, "worker"), "TURNSTILE_HANDLER": "worker:respond"}
    with (folder / "log").open("wb") as log:
        worker = subprocess.Popen([program, "worker"], cwd=folder, env=environment, stdout=log, stderr=log)
    yield
    worker.kill()
    worker.wait()


@pytest.mark.usefixtures("own_worker")
async def test_a_worker_answers_with_a_handler_called_worker(product: Product) -> None:
    [turn] = await product.submit("hello")

    await product.status_is(turn, "SUCCEEDED")
    assert await product.reply_of(turn) == ["memory", "ops", "producer", "relay", "migrations"]


@pytest.mark.parametrize(
    "command",
    [["-c", "import worker; worker.respond"], ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_worker.py"]],
)
def test_plain_python_and_pytest_find_the_user_s_own_modules(folder: Path, command: list[str]) -> None:
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_what_a_handler_imports_brings_no_driver_and_no_process(folder: Path) -> None:
    code = (
        "import sys, turnstile; print(sorted({name for module in sys.modules for name in ["
        "'.'.join(module.split('.')[:2]) if module.startswith('turnstile.') else module.split('.')[0]]} & {"
        "'asyncio', 'psycopg', 'redis', 'boto3', 'botocore', 'pydantic', 'structlog', 'turnstile.worker', "
        "'turnstile.producer', 'turnstile.relay', 'turnstile.ops'}))"
    )

    ran = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "[]"
