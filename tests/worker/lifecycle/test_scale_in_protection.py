"""Scale-in protection against a stand-in of the ECS agent: the requests, and the effect of an agent that fails."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import structlog.testing

from tests.support.ecs_agent import NO_SERVICE, NOT_ALLOWED, Agent, ecs_agent
from tests.support.probes import until
from turnstile.worker.lifecycle.scale_in_protection import ProtectionTerms, protect_while_busy

SHORT = ProtectionTerms(look_seconds=0.01, idle_seconds=0.1, retry_seconds=0.05)


@pytest.fixture
def agent() -> Iterator[Agent]:
    """An agent that grants everything, until a test changes that."""
    with ecs_agent() as answering:
        yield answering


class Work:
    """Whether the worker is busy."""

    busy = True


@asynccontextmanager
async def protecting(uri: str) -> AsyncIterator[Work]:
    """The protection loop, which must still run at the end of the block and stop when it is asked to."""
    work, stopping = Work(), asyncio.Event()
    loop = asyncio.create_task(protect_while_busy(uri, lambda: work.busy, SHORT, stopping))
    yield work
    assert not loop.done()
    stopping.set()
    await loop


async def test_protection_is_limited_in_time_and_given_back_when_the_work_is_done(agent: Agent) -> None:
    async with protecting(agent.uri) as work:
        await until(lambda: agent.wishes)
        work.busy = False
        await until(lambda: not agent.enabled[-1])

    assert agent.wishes == [{"ProtectionEnabled": True, "ExpiresInMinutes": 15}, {"ProtectionEnabled": False}]


@pytest.mark.parametrize(
    ("status", "answer", "reason"),
    [(200, NO_SERVICE, "TASK_NOT_VALID"), (400, NOT_ALLOWED, "AccessDeniedException"), (500, "oops", "status 500")],
)
async def test_a_refusing_agent_is_asked_again_and_logged_once(
    agent: Agent, status: int, answer: object, reason: str
) -> None:
    agent.status, agent.answer = status, answer
    with structlog.testing.capture_logs() as lines:
        async with protecting(agent.uri):
            await until(lambda: len(agent.wishes) >= 3)

    [error] = [line["error"] for line in lines if line["event"] == "protection.refused"]
    assert reason in error


async def test_an_invalid_agent_address_is_logged_and_does_not_end_the_worker() -> None:
    with structlog.testing.capture_logs() as lines:
        async with protecting("http://127.0.0.1:agent/api/x"):
            await until(lambda: [line for line in lines if line["event"] == "protection.failed"])


async def test_no_proxy_of_the_environment_is_used(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async with protecting(agent.uri):
        await until(lambda: agent.wishes)
