"""A handler's module may configure structlog and logging as it likes: the worker's lines stay as they are, in a pipe."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Product, process_environment
from tests.support.probes import until

HANDLER = """
from turnstile import handler

@handler(max_attempts=1)
async def respond(turn, ctx):
    ctx.log.info("of.the.handler")
    raise ValueError("as it should")
"""

SHORTEST = """
import structlog
structlog.configure(processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer()])
"""

FOR_THE_STANDARD_LIBRARY = """
import logging, sys, structlog
logging.basicConfig(format="%(message)s", stream=sys.stdout, level=logging.WARNING, force=True)
structlog.configure(
    processors=[structlog.stdlib.filter_by_level, structlog.stdlib.add_log_level, structlog.processors.JSONRenderer()],
    wrapper_class=structlog.stdlib.BoundLogger,
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)
"""

RAISES = """
import structlog

def refuse(*_):
    raise RuntimeError("a processor of the handler's")

structlog.configure(processors=[refuse])
structlog.get_config()["processors"].insert(0, refuse)
"""

OF_LOGGING = """
import logging.config
logging.config.dictConfig({"version": 1, "disable_existing_loggers": True, "root": {"level": "CRITICAL", "handlers": []}})
logging.basicConfig(filename="/dev/null", force=True)
logging.disable(logging.CRITICAL)
"""

BOUND = """
import structlog

class Unprintable:
    def __str__(self):
        raise RuntimeError("no text")

circle = []
circle.append(circle)
structlog.contextvars.bind_contextvars(turn_id="not this", customer=Unprintable(), circle=circle)
"""

Start = Callable[[str], Callable[[], list[dict[str, Any]]]]


@pytest.fixture
def start(product: Product, tmp_path: Path) -> Iterator[Start]:
    """Starts a worker whose handler's module begins so; what it returns reads the worker's lines so far."""
    program = Path(sys.executable).with_name("turnstile")
    environment = {**process_environment(product.settings, "worker"), "TURNSTILE_HANDLER": "configures:respond"}
    log = (tmp_path / "log").open("wb")
    workers = []

    def start_it(module: str) -> Callable[[], list[dict[str, Any]]]:
        (tmp_path / "configures.py").write_text(module + HANDLER)
        workers.append(subprocess.Popen([program, "worker"], cwd=tmp_path, env=environment, stderr=log))
        return lambda: [json.loads(line) for line in (tmp_path / "log").read_text().split("\n")[:-1]]

    yield start_it
    for worker in workers:
        worker.kill()
        worker.wait()


@pytest.mark.parametrize(
    "module",
    [SHORTEST, FOR_THE_STANDARD_LIBRARY, RAISES, OF_LOGGING, BOUND],
    ids=["the shortest form", "for the standard library", "a processor raises", "logging", "bound for all"],
)
async def test_the_lines_of_the_worker_stay_whatever_a_handler_s_module_configures(
    product: Product, start: Start, module: str
) -> None:
    lines = start(module)
    [turn] = await product.submit("hello")

    # A line follows the commit.
    await until(lambda: any(line["event"] == "turn.failed" for line in lines()), within=30.0)
    said = {line["event"]: line for line in lines()}
    assert {"worker.started", "turn.claimed", "of.the.handler"} <= said.keys()
    failed = said["turn.failed"]
    assert (failed["level"], failed["error_class"], failed["turn_id"]) == ("error", "ValueError", str(turn))
