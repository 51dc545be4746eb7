"""The servers of a run: the embedded stack, a database with the audit, two queues, and the fault proxy in front of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import boto3
import psycopg
from psycopg.sql import SQL, Identifier

from tests.producer.api.network_faults import at_port
from tests.proof.chaos import audit
from tests.proof.chaos.quiescence import Remains
from tests.proof.chaos.scaled_settings import Options, scaled
from tests.proof.proxy.control import ProxyControl
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.dev.stack.stack import LocalStack, temporary
from turnstile.ops.migration_run import apply

TEMPLATE = "template_chaos"
ROLE = "product"
"""The role of the product: no superuser, because a superuser has no limit on connections."""

COMMITS_HANG = "postgres-commits-hang"
"""The kind of fault in which every COMMIT of the server waits for a standby; those of other runs on the same server must not."""

GRANTS = f"""
GRANT USAGE ON SCHEMA turnstile TO {ROLE};
GRANT ALL ON ALL TABLES IN SCHEMA turnstile TO {ROLE};
GRANT ALL ON ALL SEQUENCES IN SCHEMA turnstile TO {ROLE};
GRANT ALL ON ALL FUNCTIONS IN SCHEMA turnstile TO {ROLE};
"""


@dataclass(slots=True, kw_only=True)
class Servers:
    """Everything that a fault can strike. `sqs`, `admin_url` and the stack lie past the proxy."""

    options: Options
    stack: LocalStack
    database: str
    queue: str
    dlq: str
    proxy: ProxyControl
    base: dict[str, str]
    """The variables that all processes share."""
    sqs: Any
    redis_url: str | None = None
    """A Redis of the run's own, without a proxy, instead of the stack's."""

    @property
    def admin_url(self) -> str:
        """The run's database, for the superuser."""
        return self.stack.postgres.database_url(self.database)

    @property
    def redis_prefix(self) -> str:
        return f"{self.database}:"

    def queue_url(self, name: str) -> str:
        return str(self.sqs.get_queue_url(QueueName=name)["QueueUrl"])

    async def variables(self, process: str, **more: str) -> dict[str, str]:
        """The variables of a process, which has ports of its own on the proxy."""
        postgres, redis, sqs = [await self.proxy.open(service, process) for service in ("postgres", "redis", "sqs")]
        return {
            **self.base,
            **scaled(self.options, self.queue, self.dlq),
            "TURNSTILE_REDIS_PREFIX": self.redis_prefix,
            "DATABASE_URL": f"postgresql://{ROLE}:{ROLE}@127.0.0.1:{postgres}/{self.database}",
            "REDIS_URL": self.redis_url or at_port(self.stack.redis.url, redis),
            "AWS_ENDPOINT_URL_SQS": f"http://127.0.0.1:{sqs}",
            **more,
        }

    def remains(self) -> Remains:
        return Remains(
            database_url=self.admin_url,
            redis_url=self.stack.redis.url,
            redis_prefix=self.redis_prefix,
            sqs=self.sqs,
            queue_urls=(self.queue_url(self.queue),),
            dlq_urls=(self.queue_url(self.dlq),),
        )


@asynccontextmanager
async def open_servers(options: Options, folder: Path, stack: LocalStack | None = None) -> AsyncIterator[Servers]:
    """The servers of one run on `stack`, or on a stack of its own. `folder` gets the log of all SQS calls."""
    async with AsyncExitStack() as exits:
        running = stack or cast("LocalStack", await asyncio.to_thread(exits.enter_context, temporary(durable=False)))
        database = f"chaos_{uuid4().hex[:12]}"
        await asyncio.to_thread(_make_database, running, database)
        if stack is not None and COMMITS_HANG not in options.kinds:
            await asyncio.to_thread(_wait_for_no_standby, running, database)
        exits.push_async_callback(asyncio.to_thread, running.postgres.drop_database, database)
        given = running.environment()
        base = {name: value for name, value in given.items() if name.startswith("AWS_") or name.lower() == "no_proxy"}
        suffix = ".fifo" if options.fifo else ""
        queue, dlq = f"{database}{suffix}", f"{database}-dlq{suffix}"
        sqs = await asyncio.to_thread(_make_queues, base, queue, dlq)
        ports = {"postgres": running.postgres.port, "redis": running.redis.port, "sqs": running.sqs.port}
        upstreams = {name: ("127.0.0.1", port) for name, port in ports.items()}
        proxy = await exits.enter_async_context(ProxyControl.start(upstreams, folder, seed=options.seed))
        yield Servers(
            options=options,
            stack=running,
            database=database,
            queue=queue,
            dlq=dlq,
            proxy=proxy,
            base=base,
            sqs=sqs,
        )


def _make_database(stack: LocalStack, name: str) -> None:
    with psycopg.connect(stack.postgres.database_url("postgres"), autocommit=True) as connection:
        # Several runs may begin on one stack at the same moment.
        connection.execute("SELECT pg_advisory_lock(1)")
        known = connection.execute("SELECT FROM pg_database WHERE datname = %s", [TEMPLATE]).fetchone()
        if known is None:
            # One role for all kinds of processes. It sees the rows of all tenants, as that of a worker does.
            connection.execute(f"CREATE ROLE {ROLE} LOGIN BYPASSRLS PASSWORD '{ROLE}'")
            url = stack.postgres.create_database(TEMPLATE)
            apply(DatabasePlace(url))
            audit.install(url)
            with psycopg.connect(url, autocommit=True) as template:
                template.execute(GRANTS)
    stack.postgres.create_database(name, template=TEMPLATE)


def _wait_for_no_standby(stack: LocalStack, name: str) -> None:
    with psycopg.connect(stack.postgres.database_url("postgres"), autocommit=True) as connection:
        connection.execute(SQL("ALTER DATABASE {} SET synchronous_commit = local").format(Identifier(name)))


def _make_queues(base: dict[str, str], *names: str) -> Any:
    client = boto3.client(
        "sqs",
        endpoint_url=base["AWS_ENDPOINT_URL_SQS"],
        region_name=base["AWS_REGION"],
        aws_access_key_id=base["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=base["AWS_SECRET_ACCESS_KEY"],
    )
    for name in names:
        attributes: Any = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        client.create_queue(QueueName=name, Attributes=attributes)
    return client
