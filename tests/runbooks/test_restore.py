"""Postgres gives out fences that Redis has seen long ago, and the DLQ has a letter of a turn that is gone."""

import time
from uuid import uuid4

from redis.asyncio import Redis

from tests.conftest import sqs_client
from tests.runbooks.reader import Reader
from tests.support.factories import make_worker_record
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.statements.advance_fences import ADVANCE, read_last_fence
from turnstile.statements.worker_registry import announce
from turnstile.streaming.event import name_stream
from turnstile.turn.wire_format import WakeUp


async def test_the_page(
    reader: Reader, database: Database, settings: Settings, queues: MessageQueues, stack: Stack, keys: Redis
) -> None:
    async def see(fence: int) -> None:
        await keys.xadd(
            name_stream(settings.redis_prefix, "t", "s", uuid4()), {"kind": "status", "data": "{}"}, id=f"{fence}-1"
        )

    reader.names |= {"SUBNETS": "turnstile-postgres", "GROUP": "sg-1", "PARAMETERS": "turnstile-1"}
    lost = WakeUp("t", "s", uuid4()).encode()
    sqs_client(stack).send_message(QueueUrl=(await queues.find(settings.queue)).dlq_url, MessageBody=lost)
    lately = time.time_ns() // 1000
    await see(lately)

    assert "dead-letters-unexplained" in (await reader.up_to("turnstile doctor", code=ExitCode.FINDINGS)).out
    await reader.up_to("turnstile migrate")
    await announce(database, make_worker_record(settings.queue, "of the backup"))
    await database.fetch("UPDATE workers SET lost_at = now()", {})
    await reader.up_to('psql "$OWNER_URL" -c "DELETE FROM turnstile.workers"')
    checked = await reader.up_to("turnstile doctor", code=ExitCode.FINDINGS)
    assert "fences-behind" in checked.out
    assert "workers-lost" not in checked.out
    await reader.up_to("redis-cli")
    assert await keys.dbsize() == 0
    await see(lately)
    await reader.up_to("aws ecs update-service")
    async with Database(settings.database, "worker", size=1, pinned=True, first=ADVANCE) as worker:
        await worker.fetch("SELECT", {})
    assert "fences-behind" not in (await reader.up_to("turnstile doctor", code=ExitCode.FINDINGS)).out
    assert "unknown_turn" in (await reader.up_to("turnstile dlq list --messages")).out
    seen = await reader.up_to("turnstile doctor", code=ExitCode.FINDINGS)
    assert "dead-letters-unexplained" in seen.out
    assert "1 message of unknown turns" in (await reader.up_to("turnstile dlq drop --unknown --dry-run")).out
    assert "1 of 1 message of unknown turns deleted" in (await reader.up_to("turnstile dlq drop --unknown --yes")).out

    # The clock of the server was an hour fast before the restore.
    await see(lately + 3600 * 10**6)
    fixed = await reader.up_to("turnstile doctor --fix")
    assert "fences-behind" in fixed.out
    assert "repaired" in fixed.out
    assert await read_last_fence(database) > lately + 3600 * 10**6
