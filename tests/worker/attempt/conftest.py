"""What an attempt has around it: threads and an emitter."""

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from tests.worker.attempt.attempts import THREADS, Bench
from tests.worker.attempt.emitted_events import EmitterRig


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(THREADS) as pool:
        yield pool


@pytest.fixture
async def bench(threads: Executor) -> Bench:
    return Bench(threads)


@pytest.fixture
async def rig() -> EmitterRig:
    return EmitterRig()
