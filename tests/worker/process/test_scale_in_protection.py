"""Scale-in protection against a stand-in of the ECS agent: what goes over the wire, and what a sick agent does to a worker."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
import structlog.testing

from tests.support.ecs_agent import NO_SERVICE, NOT_ALLOWED, Agent, ecs_agent
from tests.support.probes import until
from turnstile.worker.process.scale_in_protection import Terms, protect_while_busy

SHORT = Terms(look_seconds=0.01, renew_seconds=0.2, idle_seconds=0.1, retry_seconds=0.05, retry_cap_seconds=0.05)


@pytest.fixture
def agent() -> Iterator[Agent]:
    """An agent that grants everything, until it is told otherwise."""
    with ecs_agent() as answering:
        yield answering


class Work:
    """Whether there is some."""

    busy = True


@asynccontextmanager
async def protecting(uri: str) -> AsyncIterator[Work]:
    """The loop at work; it must still be at it in the end, and stop when it is told to."""
    work, stopping = Work(), asyncio.Event()
    loop = asyncio.create_task(protect_while_busy(uri, lambda: work.busy, SHORT, stopping))
    yield work
    assert not loop.done()
    stopping.set()
    await loop


async def test_the_agent_is_asked_for_a_short_time(agent: Agent) -> None:
    async with protecting(agent.uri):
        await until(lambda: agent.wishes)

    assert agent.wishes[0] == {"ProtectionEnabled": True, "ExpiresInMinutes": 5}


async def test_the_agent_is_asked_while_handlers_have_all_of_the_loops_threads(agent: Agent) -> None:
    over = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    blocked = asyncio.get_running_loop().run_in_executor(None, over.wait)

    async with protecting(agent.uri):
        await until(lambda: agent.wishes)
        over.set()

    await blocked


async def test_protection_is_renewed_while_there_is_work(agent: Agent) -> None:
    async with protecting(agent.uri):
        await until(lambda: len(agent.wishes) >= 3)

    assert all(agent.enabled)


async def test_protection_is_given_up_when_the_work_is_done(agent: Agent) -> None:
    async with protecting(agent.uri) as work:
        await until(lambda: agent.wishes)
        work.busy = False
        await until(lambda: not agent.enabled[-1])

    assert agent.wishes[-1] == {"ProtectionEnabled": False}


@pytest.mark.parametrize(
    ("status", "answer", "reason"),
    [
        (200, NO_SERVICE, "TASK_NOT_VALID"),
        (400, NOT_ALLOWED, "AccessDeniedException"),
        (500, "oops", "status 500"),
        (200, {}, "without protection"),
    ],
)
async def test_an_agent_that_refuses_is_asked_again_and_complained_of_once(
    agent: Agent, status: int, answer: object, reason: str
) -> None:
    agent.status, agent.answer = status, answer
    with structlog.testing.capture_logs() as lines:
        async with protecting(agent.uri):
            await until(lambda: len(agent.wishes) >= 3)

    complaints = [line["error"] for line in lines if line["event"] == "protection.refused"]
    assert len(complaints) == 1
    assert reason in complaints[0]


async def test_an_agent_that_is_away_disturbs_nobody(agent: Agent) -> None:
    with structlog.testing.capture_logs() as lines:
        async with protecting("http://127.0.0.1:1/api/x"):
            await until(lambda: [line for line in lines if line["event"] == "protection.refused"])


async def test_an_address_that_is_none_is_complained_of_and_ends_nothing() -> None:
    with structlog.testing.capture_logs() as lines:
        async with protecting("http://127.0.0.1:agent/api/x"):
            await until(lambda: [line for line in lines if line["event"] == "protection.failed"])


async def test_a_proxy_of_the_environment_is_not_asked(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async with protecting(agent.uri):
        await until(lambda: agent.wishes)
