"""Fixtures only: the API as it is composed, with two tenants, called without a socket between."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
import redis.asyncio
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from tests.producer.api.calls import KEYS
from tests.producer.api.conversation import Conversation, conversing
from tests.producer.api.network_faults import Cable, at_port, cable_to
from tests.support.process_roles import url_of
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.dev.stack.ports import choose_free
from turnstile.ops.roles.kinds import Kind
from turnstile.producer.app import create_app

Connect = Callable[[Settings], AbstractAsyncContextManager[AsyncClient]]
OpenApi = Callable[..., AbstractAsyncContextManager[AsyncClient]]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The shared settings, with a key each for two tenants, and the API's own role of the database."""
    url = url_of(Kind.API, settings.database_url)
    return settings.model_copy(update={"api_keys": tuple(KEYS.items()), "database_url": url})


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """Of a superuser, who sees the rows of all tenants, and does what the API may not."""
    async with Database(DatabasePlace(database_url), "test", size=4, pinned=True, wait_seconds=30.0) as opened:
        yield opened


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[FastAPI]:
    """The application, opened and closed as a server would."""
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        yield app


@asynccontextmanager
async def call(app: FastAPI, tenant: str = "acme") -> AsyncIterator[AsyncClient]:
    """A client of one tenant."""
    headers = {"Authorization": f"Bearer {KEYS[tenant]}"}
    async with AsyncClient(transport=ASGITransport(app), base_url="http://api", headers=headers) as client:
        yield client


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[AsyncClient]:
    """Tenant acme."""
    async with call(app) as client:
        yield client


@pytest.fixture
async def other_client(app: FastAPI) -> AsyncIterator[AsyncClient]:
    """Tenant globex."""
    async with call(app, "globex") as client:
        yield client


@pytest.fixture
def connect() -> Connect:
    """A client of an application with other settings: `async with connect(settings) as client`."""

    @asynccontextmanager
    async def connected(settings: Settings) -> AsyncIterator[AsyncClient]:
        app = create_app(settings)
        async with app.router.lifespan_context(app), call(app) as client:
            yield client

    return connected


@pytest.fixture
def unconfigured(settings: Settings) -> OpenApi:
    """An API without keys in its settings: `async with unconfigured(…) as client`. The client shows none."""

    @asynccontextmanager
    async def opened(
        host: str = "127.0.0.1", called: str = "localhost:8080", **more: Any
    ) -> AsyncIterator[AsyncClient]:
        app = create_app(settings.model_copy(update={"api_keys": (), "api_host": host, **more}))
        async with (
            app.router.lifespan_context(app),
            AsyncClient(transport=ASGITransport(app), base_url=f"http://{called}") as client,
        ):
            yield client

    return opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def offline() -> AsyncIterator[AsyncClient]:
    """Tenant acme of an application that has neither Postgres nor SQS: for what must be refused before either."""
    nowhere = f"127.0.0.1:{choose_free()}"
    settings = Settings(
        database_url=f"postgresql://{nowhere}/none",
        sqs_endpoint_url=f"http://{nowhere}",
        aws_region="us-east-1",
        queues=(QueueSettings.model_validate({"name": "turns"}),),
        api_keys=tuple(KEYS.items()),
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("turnstile.producer.app.DATABASE_WAIT_SECONDS", 0.1)
        app = create_app(settings)
        async with app.router.lifespan_context(app), call(app) as client:
            yield client


@pytest.fixture
async def database_cable(settings: Settings) -> AsyncIterator[Cable]:
    async with cable_to("127.0.0.1", urlsplit(settings.database_url).port or 5432) as cable:
        yield cable


@pytest.fixture
async def cabled(settings: Settings, database_cable: Cable, connect: Connect) -> AsyncIterator[AsyncClient]:
    url = at_port(settings.database_url, database_cable.port)
    async with connect(settings.model_copy(update={"database_url": url})) as client:
        yield client
        # The pools close at once, also after a silence.
        await database_cable.cut()


@pytest.fixture
async def redis_cable(stack: Stack) -> AsyncIterator[Cable]:
    address = urlsplit(stack.redis.url)
    async with cable_to(address.hostname or "", address.port or 0) as cable:
        yield cable


@pytest.fixture
async def keys(settings: Settings) -> AsyncIterator[redis.asyncio.Redis]:
    """A Redis client, to read and change what the product stores."""
    async with redis.asyncio.Redis.from_url(settings.redis_url, decode_responses=True) as opened:
        yield opened


@pytest.fixture
async def talk(settings: Settings) -> AsyncIterator[Conversation]:
    async with conversing(settings) as conversation:
        yield conversation


@pytest.fixture
async def cabled_talk(settings: Settings, redis_cable: Cable) -> AsyncIterator[Conversation]:
    """A conversation whose events go through the cable."""
    through = settings.model_copy(update={"memory_redis_url": at_port(settings.redis_url, redis_cable.port)})
    async with conversing(through) as conversation:
        yield conversation
