"""Stop signals: an ignored one stays ignored. What becomes of them in forked children: tests/e2e/test_forked_processes.py."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from tests.support.probes import until
from turnstile.process.stop_signals import STOP_SIGNALS, on_stop_signal


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Those of the tests, afterwards."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOP_SIGNALS)
async def test_each_of_them_asks_to_stop(number: signal.Signals) -> None:
    asked: list[int] = []
    signal.signal(number, signal.SIG_DFL)
    on_stop_signal(asked.append)

    os.kill(os.getpid(), number)

    await until(lambda: asked)
    assert asked == [number]


async def test_what_nohup_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    on_stop_signal(lambda _: None)

    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert not asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
