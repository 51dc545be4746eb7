"""Fixtures only: one stack per test process; a database, a Redis prefix and queues per test."""

import gc
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import botocore.session
import hypothesis
import pytest
import redis.asyncio

from tests.support.databases import Databases
from tests.support.given_queues import LONGEST_RECEIVE_SECONDS, empty, find_given_queues
from tests.support.log_restoring import log_restored
from tests.support.process_roles import KINDS, make_roles, url_of
from tests.support.stacks.aws import AwsStack, protect
from tests.support.stacks.choice import (
    leave_out,
    pytest_addoption,
    pytest_configure,
    pytest_report_header,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
    running_stack,
)
from tests.support.stacks.stack import Stack, as_superuser
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.sqs import sqs_client as sqs_client_module
from turnstile.backends.sqs.endpoint import Endpoint, find_endpoint
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.migration_run import apply
from turnstile.ops.roles.grants import grant
from turnstile.ops.roles.kinds import Kind

# What pytest finds here by its name.
__all__ = [
    "pytest_addoption",
    "pytest_configure",
    "pytest_report_header",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_testnodedown",
]

LEASE_SECONDS = 1.5
PATIENCE_SECONDS = 20.0

# Machines are shared: how long an example takes says nothing about the product.
hypothesis.settings.register_profile("shared", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("shared")

# Where bytecode is not written, each test process and each process that it starts compiles everything again: half of its start.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

READ_BY_BOTOCORE = re.compile("^AWS_|^BOTO|PROXY|CA_BUNDLE|^HOME$", re.IGNORECASE)

ROOT = Path(__file__).parent.parent

WITHOUT_SQS = frozenset(
    {"archive", "memory", "migrations", "queries", "relay", "retention", "statements", "streaming", "webhooks"}
)
"""Folders whose tests use SQS only by the fixture `queues`. For the others each `queue` exists."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and test items stay to the end: the garbage collector need not look at them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out(config, items)


@pytest.fixture(scope="session")
def stack(pytestconfig: pytest.Config) -> Iterator[Stack]:
    """The stack of this run. A test may stop and restart its services, and must leave them running."""
    with running_stack(pytestconfig) as running:
        yield running


@pytest.fixture(scope="session")
def template(stack: Stack) -> str:
    """A migrated database that each test's own is cloned from, with the rights of the processes' roles."""
    name = "template_turnstile"
    place = DatabasePlace(stack.postgres.create_database(name))
    apply(place)
    make_roles(stack.postgres.url)
    grant(place, KINDS)
    return name


@pytest.fixture(scope="session")
def databases(stack: Stack, template: str) -> Iterator[Databases]:
    """Those of this process."""
    made = Databases(stack, template)
    yield made
    made.close()


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """An empty, migrated database of the test's own."""
    name = databases.take()
    yield databases.url(name)
    databases.give_back(name)


@pytest.fixture
def bare_url(stack: Stack) -> Iterator[str]:
    """A database without any table."""
    name = f"bare_{uuid4().hex}"
    yield stack.postgres.create_database(name)
    stack.postgres.drop_database(name)


@pytest.fixture(scope="session", autouse=True)
def _one_loader_of_botocore() -> Iterator[None]:
    """botocore reads the descriptions of its services again for each session: a tenth of a second of CPU, in most tests."""
    loader = botocore.session.create_loader()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(botocore.session, "create_loader", lambda *_: loader)
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_search_for_each_endpoint() -> Iterator[None]:
    """botocore makes a client of its own to resolve an endpoint, which takes a fiftieth of a second of CPU in most tests. The
    result depends on the arguments and on these variables."""
    found: dict[object, Endpoint] = {}

    def find_once(session: botocore.session.Session, region: str | None, url: str | None) -> Endpoint:
        read = [(name, value) for name, value in os.environ.items() if READ_BY_BOTOCORE.search(name)]
        key = (region, url, *sorted(read))
        if key not in found:
            found[key] = find_endpoint(session, region, url)
        return found[key]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sqs_client_module, "find_endpoint", find_once)
        yield


@pytest.fixture(autouse=True)
def _patience_with_redis(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real server on a starved machine takes longer now and then than a tenth of the tests' short lease. The product does
    without Redis then, as it should, and a test of something else would fail. Those about a silent Redis are marked."""
    if "stack" in request.fixturenames and request.node.get_closest_marker("silent_redis") is None:
        monkeypatch.setattr(Settings, "redis_timeout_seconds", PATIENCE_SECONDS)


@pytest.fixture(autouse=True)
def _log() -> Iterator[None]:
    """A command that a test runs in this process must not leave its log to the tests after it."""
    with log_restored():
        yield


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A script's background jobs ignore SIGINT, and what they start does so too: tests that run there could interrupt nothing."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def fifo() -> bool:
    """Whether the test's queue is FIFO; parametrise it for both kinds."""
    return False


@pytest.fixture
def visibility_seconds() -> float:
    """The visibility timeout of the test's queue."""
    return 4.0


@pytest.fixture
def queue(
    request: pytest.FixtureRequest, stack: Stack, fifo: bool, visibility_seconds: float
) -> Iterator[QueueSettings]:
    """A queue and its DLQ of the test's own; or those that the run was given, emptied."""
    if given := find_given_queues():
        declared = QueueSettings.model_validate(
            {
                **(given.fifo if fifo else given.standard),
                "visibility_seconds": visibility_seconds,
                "timeout_seconds": 20.0,
            }
        )
        for url in (declared.sqs, declared.dlq):
            empty(sqs_client(stack), url)
        yield declared
        return
    name = f"turns-{uuid4().hex[:12]}"
    declared = QueueSettings.model_validate(
        {
            "name": name,
            "sqs": f"{name}.fifo" if fifo else name,
            "visibility_seconds": visibility_seconds,
            "timeout_seconds": 20.0,
        }
    )
    if "queues" in request.fixturenames or request.path.relative_to(ROOT / "tests").parts[0] not in WITHOUT_SQS:
        attributes: Any = {"FifoQueue": "true"} if fifo else {}
        # They end with the stack.
        for each in (declared.sqs, declared.dlq):
            sqs_client(stack).create_queue(QueueName=each, Attributes=attributes)
    yield declared


def environment_of(stack: Stack) -> dict[str, str]:
    """The stack's environment, as its superuser; with the SQS of the queues that the run was given, if it was."""
    given = find_given_queues()
    return as_superuser(stack) | (given.tests if given else {})


def sqs_client(stack: Stack) -> Any:
    """A plain boto3 client of the stack's SQS API, for looking from outside. One for all tests of a process."""
    environment = environment_of(stack)
    names = (
        "AWS_ENDPOINT_URL_SQS", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE",
    )  # fmt: skip
    return _make_sqs_client(*map(environment.get, names), protected=isinstance(stack, AwsStack))


@cache
def _make_sqs_client(
    url: str | None,
    region: str | None,
    key: str | None,
    secret: str | None,
    token: str | None,
    authorities: str | None,
    *,
    protected: bool,
) -> Any:
    client = boto3.client(
        "sqs",
        endpoint_url=url,
        region_name=region,
        # Without a pair here the SDK looks for credentials in its own ways.
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
        verify=authorities,
    )
    if protected:
        protect(client)
    return client


@pytest.fixture
def settings(stack: Stack, database_url: str, queue: QueueSettings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Short leases and ticks, so that what takes half a minute in production takes a second here."""
    environment = environment_of(stack)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name in ("TURNSTILE_API_KEYS", "TURNSTILE_API_KEY", "TURNSTILE_HOME"):
        monkeypatch.delenv(name)
    return Settings(
        database_url=database_url,
        redis_url=stack.redis.url,
        aws_region=environment.get("AWS_REGION"),
        sqs_endpoint_url=environment.get("AWS_ENDPOINT_URL_SQS"),
        queues=(queue,),
        queue=queue.name,
        redis_prefix=f"{uuid4().hex[:8]}:",
        lease_seconds=LEASE_SECONDS,
        relay_tick_seconds=0.2,
        takeover_resend_seconds=1.0,
        resend_seconds=5.0,
        receive_wait_seconds=LONGEST_RECEIVE_SECONDS,
        grace_seconds=1.0,
        cancel_grace_seconds=0.5,
        retry_base_seconds=0.05,
        retry_cap_seconds=0.2,
        log_format="json",
    )


@pytest.fixture
async def keys(settings: Settings) -> AsyncIterator[redis.asyncio.Redis]:
    """A plain client, which reads what the product has written."""
    async with redis.asyncio.Redis.from_url(settings.redis_url, decode_responses=True) as opened:
        yield opened


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    """A pool as the product opens it."""
    # Patient: fifty at a time wait for one another on a busy machine.
    async with Database(settings.database, "test", size=4, pinned=True, wait_seconds=30.0) as opened:
        yield opened


@pytest.fixture
async def superuser(database_url: str) -> AsyncIterator[Database]:
    """For what a test prepares where `database` has the role of a process, which may not do it."""
    async with Database(DatabasePlace(database_url), "superuser", size=1, pinned=True) as opened:
        yield opened


@pytest.fixture
async def of_relay(settings: Settings) -> AsyncIterator[Database]:
    """A pool as the relay opens it, with the relay's role. The tests prepare and look as the superuser (`database`)."""
    place = DatabasePlace(url_of(Kind.RELAY, settings.database_url))
    async with Database(place, "relay", size=4, pinned=True, wait_seconds=30.0) as opened:
        yield opened


@pytest.fixture
async def queues(settings: Settings) -> AsyncIterator[MessageQueues]:
    """The product's own hand on SQS."""
    opened = MessageQueues(settings)
    yield opened
    await opened.close()
