"""The function as Lambda calls it: with an event and a context; the settings come from the environment."""

import asyncio
from resource import RLIMIT_CORE, getrlimit

import pytest

from tests.conftest import environment_of
from tests.support.stacks.stack import Stack
from tests.worker.aws_lambda.lambda_invocations import Site
from turnstile.config.queue_settings import QueueSettings
from turnstile.worker.aws_lambda import lambda_handler as lambda_handler
from turnstile.worker.aws_lambda.lambda_handler import handle
from turnstile.worker.aws_lambda.sqs_event import EventRefusedError


class LambdaContext:
    aws_request_id = "request-1"

    def get_remaining_time_in_millis(self) -> int:
        return 20_000


async def test_the_entry_point_reads_its_settings_from_the_environment(
    site: Site, stack: Stack, queue: QueueSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {
        **environment_of(stack),
        "DATABASE_URL": site.settings.database_url,
        "TURNSTILE_QUEUES": f"[{queue.model_dump_json()}]",
        "TURNSTILE_QUEUE": site.settings.queue,
        "TURNSTILE_REDIS_PREFIX": site.settings.redis_prefix,
        "TURNSTILE_HANDLER": "tests.worker.aws_lambda.lambda_invocations:answer",
        "TURNSTILE_LOG_LEVEL": "error",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TURNSTILE_API_KEYS", raising=False)
    monkeypatch.setattr(lambda_handler, "_function", None)
    monkeypatch.setattr("turnstile.process.logs.configure", lambda _: None)
    await site.send("a")
    event = await site.source.poll(1)

    answered = await asyncio.to_thread(handle, event, LambdaContext())

    assert answered == {"batchItemFailures": []}
    assert getrlimit(RLIMIT_CORE) == (0, 0)
    assert await site.rows("status") == [("SUCCEEDED",)]
    with pytest.raises(EventRefusedError):
        await asyncio.to_thread(handle, {"Records": [{}]}, LambdaContext())
    assert lambda_handler._function is not None
    await asyncio.to_thread(lambda_handler._function.close)
