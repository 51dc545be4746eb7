"""The proxy process and how it is steered."""

import asyncio
from pathlib import Path

import pytest

from tests.proof.proxy.control import ProxyControl, ProxyError
from tests.proof.tests.proxy.conftest import connect, running
from tests.support.probes import until
from tests.support.stacks.stack import Stack


@pytest.mark.parametrize(
    ("service", "name", "toxic", "parameters"),
    [
        ("postgres", "worker-1", "fire", {}),
        ("postgres", "worker-1", "duplicate", {}),
        ("postgres", "worker-1", "latency", {"dely": 1}),
        ("postgres", "other", "latency", {}),
        ("mysql", "worker-1", "latency", {}),
        ("sqs", "all", "error", {"actions": ["sned"]}),
    ],
)
async def test_what_there_is_not_is_refused(
    proxy: ProxyControl, service: str, name: str, toxic: str, parameters: dict[str, object]
) -> None:
    await proxy.open("postgres", "worker-1")

    with pytest.raises(ProxyError):
        await proxy.set(service, name, toxic, **parameters)


async def test_the_same_seed_and_the_same_requests_meet_the_same_faults(
    stack: Stack, database_url: str, tmp_path: Path
) -> None:
    async def lost(seed: int) -> list[int]:
        upstreams = {"postgres": ("127.0.0.1", stack.postgres.port)}
        found = []
        with running(upstreams, tmp_path, seed) as proxy:
            port = await proxy.open("postgres", "worker-1")
            await proxy.set("postgres", "worker-1", "answer_lost", probability=0.5)
            for number in range(10):
                session = await connect(database_url, port)
                before = await proxy.hits("postgres", "answer_lost")
                await asyncio.gather(session.execute("CREATE TEMP TABLE x (n int)"), return_exceptions=True)
                if await proxy.hits("postgres", "answer_lost") > before:
                    found.append(number)
                await session.close()
        return found

    first, second, other = await lost(1), await lost(1), await lost(2)

    assert first == second != other


async def test_the_proxy_process_ends_with_its_harness(stack: Stack, tmp_path: Path) -> None:
    upstreams = {"redis": ("127.0.0.1", stack.redis.port)}
    async with ProxyControl.start(upstreams, tmp_path) as proxy:
        assert await proxy.open("redis", "worker-1") != await proxy.open("redis", "worker-2")
        process = proxy._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()

        await until(lambda: process.returncode is not None)

        with pytest.raises(ProxyError):
            await proxy.counts()
