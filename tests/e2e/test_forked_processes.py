"""Handlers may fork, and end what they forked: the children are not part of the worker."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until
from turnstile.dev.stack.ports import choose_free

ON_THE_LOOP = "tests.e2e.forking_handlers:act"
IN_A_THREAD = "tests.e2e.forking_handlers:act_in_thread"
SIGTERM = -int(signal.SIGTERM)


@pytest.mark.parametrize("handler", [ON_THE_LOOP, IN_A_THREAD])
@pytest.mark.parametrize(("do", "reply"), [("end_a_process", SIGTERM), ("limit_a_pool", "took too long")])
async def test_a_child_dies_of_sigterm_and_the_worker_goes_on(
    product: Product, start_worker: StartWorker, handler: str, do: str, reply: Any
) -> None:
    worker = start_worker(TURNSTILE_HANDLER=handler)
    [turn] = await product.submit(do)

    await product.status_is(turn, "SUCCEEDED")

    assert await product.reply_of(turn) == reply
    assert not worker.said("shutdown.draining")


@pytest.mark.parametrize("handler", [ON_THE_LOOP, IN_A_THREAD])
@pytest.mark.parametrize("do", ["return_in_a_fork", "exit_in_a_fork"])
async def test_a_fork_that_comes_back_from_the_handler_ends(
    product: Product, start_worker: StartWorker, handler: str, do: str
) -> None:
    start_worker(TURNSTILE_HANDLER=handler)
    [turn] = await product.submit(do)

    await product.status_is(turn, "SUCCEEDED")

    assert await product.reply_of(turn) == 1


async def test_the_ports_of_a_killed_worker_are_free_while_its_children_live(
    product: Product, start_worker: StartWorker
) -> None:
    ports = {"TURNSTILE_HEALTH_PORT": str(choose_free()), "TURNSTILE_METRICS_PORT": str(choose_free())}
    # A relay that exports metrics counts dead letters, and the role of infra's workers may not: they have no relay.
    worker = start_worker(TURNSTILE_HANDLER=ON_THE_LOOP, TURNSTILE_RELAY="false", **ports)
    [turn] = await product.submit("leave_a_process")
    await product.status_is(turn, "SUCCEEDED")
    child = await product.reply_of(turn)

    worker.kill()

    assert _runs(child)
    successor = start_worker(TURNSTILE_HANDLER=ON_THE_LOOP, TURNSTILE_RELAY="false", **ports)
    await until(lambda: successor.said("worker.started"))
    os.kill(child, signal.SIGKILL)


async def test_a_worker_that_stops_ends_the_processes_of_its_handlers(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker(TURNSTILE_HANDLER=ON_THE_LOOP)
    [turn] = await product.submit("leave_a_process")
    await product.status_is(turn, "SUCCEEDED")
    child = await product.reply_of(turn)

    worker.signal(signal.SIGTERM)

    await until(lambda: worker.exit_code is not None)
    await until(lambda: not _runs(child))


def _runs(pid: int) -> bool:
    # A dead process that nobody has waited for has no command line.
    command = Path(f"/proc/{pid}/cmdline")
    return command.exists() and bool(command.read_bytes())
