"""The servers of a run: the embedded stack, a database with the audit, two queues, and the fault proxy in front of them."""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import boto3
import psycopg

from tests.proof.chaos import audit
from tests.proof.chaos.scaled_settings import Addresses, Options, Queue, Wiring
from tests.proof.proxy.control import ProxyControl
from turnstile.ops.dev.stack.stack import LocalStack, down, up
from turnstile.ops.migration_run import apply

TEMPLATE = "template_chaos"
ROLE = "product"
"""The role of the product: no superuser, because a superuser has no limit on connections."""

GRANTS = f"""
GRANT ALL ON ALL TABLES IN SCHEMA public TO {ROLE};
GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {ROLE};
"""


@dataclass(slots=True, kw_only=True)
class Environment:
    """Everything a nemesis may lay its hands on."""

    options: Options
    folder: Path
    stack: LocalStack
    database: str
    wiring: Wiring
    proxy: ProxyControl
    sqs: Any
    """A boto3 client that goes past the proxy."""
    redis_url: str | None = None
    """A Redis of the run's own, which nothing stands in front of, instead of the stack's."""

    @property
    def admin_url(self) -> str:
        """The run's database, for the superuser, past the proxy."""
        return self.stack.postgres.database_url(self.database)

    @property
    def locks_url(self) -> str:
        return self.stack.redis.url

    @property
    def redis_prefix(self) -> str:
        return self.wiring.redis_prefix

    async def addresses(self, name: str) -> Addresses:
        """Ports of its own on the proxy for one process."""
        postgres, redis, sqs = [await self.proxy.open(service, name) for service in ("postgres", "redis", "sqs")]
        return Addresses(
            postgres=f"postgresql://{ROLE}@127.0.0.1:{postgres}/{self.database}",
            redis=self.redis_url or f"redis://127.0.0.1:{redis}/0",
            sqs=f"http://127.0.0.1:{sqs}",
        )

    def queue_url(self, *, dead: bool = False) -> str:
        queue = self.wiring.queue
        return str(self.sqs.get_queue_url(QueueName=queue.dlq if dead else queue.sqs)["QueueUrl"])


def end_on_sigterm() -> None:
    """SIGTERM ends this process as Ctrl-C does: stack and cast are taken down on the way out."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)


@asynccontextmanager
async def open_environment(
    options: Options, folder: Path, stack: LocalStack | None = None
) -> AsyncIterator[Environment]:
    """Sets the stage in `folder`, on `stack` or on one of its own that is gone afterwards."""
    async with AsyncExitStack() as exits:
        running = stack or await exits.enter_async_context(own_stack())
        database = f"chaos_{uuid4().hex[:12]}"
        await asyncio.to_thread(_make_database, running, database)
        exits.push_async_callback(asyncio.to_thread, running.postgres.drop_database, database)
        suffix = ".fifo" if options.fifo else ""
        queue = Queue(sqs=f"{database}{suffix}", dlq=f"{database}-dlq{suffix}", halts=options.halt)
        sqs = await asyncio.to_thread(_make_queues, running, queue, fifo=options.fifo)
        proxy = await exits.enter_async_context(
            ProxyControl.start(
                {name: (address.hostname, address.port) for name, address in _servers(running).items()},
                wire=folder / "wire.jsonl",
                seed=options.seed,
            )
        )
        yield Environment(
            options=options,
            folder=folder,
            stack=running,
            database=database,
            wiring=Wiring(
                queue=queue,
                base=_base(running),
                redis_prefix=f"{database}:",
                lease_seconds=options.lease_seconds,
                tenant_slots=options.tenant_cap,
            ),
            proxy=proxy,
            sqs=sqs,
        )


def _servers(stack: LocalStack) -> dict[str, Any]:
    return {
        "postgres": urlsplit(stack.postgres.url),
        "redis": urlsplit(stack.redis.url),
        "sqs": urlsplit(stack.sqs.address),
    }


def _base(stack: LocalStack) -> dict[str, str]:
    given = stack.environment()
    return {name: value for name, value in given.items() if name.startswith("AWS_") or name.lower() == "no_proxy"}


@asynccontextmanager
async def own_stack() -> AsyncIterator[LocalStack]:
    """An embedded stack of its own, for as long as the block."""
    home = Path(tempfile.mkdtemp(prefix="turnstile-chaos-"))
    try:
        yield await asyncio.to_thread(up, home, durable=False)
    finally:
        await asyncio.to_thread(down, home, purge=True)
        shutil.rmtree(home, ignore_errors=True)


def _make_database(stack: LocalStack, name: str) -> None:
    with psycopg.connect(stack.postgres.database_url("postgres"), autocommit=True) as connection:
        # Several runs may begin on one stack at the same moment.
        connection.execute("SELECT pg_advisory_lock(1)")
        known = connection.execute("SELECT FROM pg_database WHERE datname = %s", [TEMPLATE]).fetchone()
        if known is None:
            connection.execute(f"CREATE ROLE {ROLE} LOGIN")
            url = stack.postgres.create_database(TEMPLATE)
            apply(url)
            audit.install(url)
            with psycopg.connect(url, autocommit=True) as template:
                template.execute(GRANTS)
    stack.postgres.create_database(name, template=TEMPLATE)


def _make_queues(stack: LocalStack, queue: Queue, *, fifo: bool) -> Any:
    environment = stack.environment()
    client = boto3.client(
        "sqs",
        endpoint_url=environment["AWS_ENDPOINT_URL_SQS"],
        region_name=environment["AWS_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
    )
    attributes: Any = {"FifoQueue": "true"} if fifo else {}
    for name in (queue.sqs, queue.dlq):
        client.create_queue(QueueName=name, Attributes=attributes)
    return client
