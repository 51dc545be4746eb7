"""`taskiq`: taskiq with taskiq-aio-sqs, ten messages a receive. It keeps no status and takes no lock."""

import asyncio
import os

from taskiq_aio_sqs import SQSBroker

from bench.programs.terms import QUEUE, SLEEP_SECONDS, begin

broker = SQSBroker(
    QUEUE,
    endpoint_url=os.environ["AWS_ENDPOINT_URL_SQS"],
    region_name="us-east-1",
    aws_access_key_id="local",
    aws_secret_access_key="local",  # noqa: S106 - the emulator checks no key
    max_number_of_messages=10,
    wait_time_seconds=20,
)


@broker.task(task_name="job")  # type: ignore[untyped-decorator]
async def job(number: int) -> None:
    begin(number)
    if SLEEP_SECONDS:
        await asyncio.sleep(SLEEP_SECONDS)
