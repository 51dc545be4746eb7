"""What Lambda does with a queue: it receives, calls the function, and deletes what the function does not report."""

import asyncio
from typing import Any

from tests.support.probes import until
from turnstile.config.queue_settings import QueueSettings
from turnstile.worker.aws_lambda.lambda_handler import Function

REGION = "us-east-1"
TOO_LONG = 30


class EventSource:
    """An event source mapping of one queue, with ReportBatchItemFailures; `sqs` is a plain boto3 client."""

    def __init__(self, sqs: Any, queue: QueueSettings) -> None:
        self._sqs = sqs
        self._queue = queue
        # A name, or as whoever may not ask for it declares it.
        self._url = queue.sqs if "://" in queue.sqs else sqs.get_queue_url(QueueName=queue.sqs)["QueueUrl"]

    async def poll(self, most: int) -> dict[str, Any]:
        """An event with that many messages."""
        records: list[dict[str, Any]] = []

        async def enough() -> bool:
            received = await asyncio.to_thread(
                self._sqs.receive_message,
                QueueUrl=self._url,
                MaxNumberOfMessages=10,
                VisibilityTimeout=int(self._queue.visibility_seconds),
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            records.extend(self._record(message) for message in received.get("Messages", []))
            return len(records) >= most

        await until(enough)
        return {"Records": records}

    def _record(self, message: dict[str, Any]) -> dict[str, Any]:
        return {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "messageAttributes": {
                name: {"stringValue": value["StringValue"], "stringListValues": [], "dataType": value["DataType"]}
                for name, value in message.get("MessageAttributes", {}).items()
            },
            "md5OfBody": message["MD5OfBody"],
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{REGION}:000000000000:{self._queue.sqs.rpartition('/')[2]}",
            "awsRegion": REGION,
        }

    async def invoke(self, function: Function, event: dict[str, Any], seconds: float = TOO_LONG) -> list[str]:
        """Has the function answer; deletes what it does not report, and returns the bodies of what it does."""
        answer = await asyncio.to_thread(function.answer, event, "request-1", seconds)
        return await self.heed(event, answer)

    async def heed(self, event: dict[str, Any], answer: dict[str, Any]) -> list[str]:
        """The same with the function's answer."""
        reported = {one["itemIdentifier"] for one in answer["batchItemFailures"]}
        entries = [
            {"Id": str(place), "ReceiptHandle": record["receiptHandle"]}
            for place, record in enumerate(event["Records"])
            if record["messageId"] not in reported
        ]
        if entries:
            # In a batch, because some emulators refuse to delete what the function has deleted already, and AWS shrugs.
            await asyncio.to_thread(self._sqs.delete_message_batch, QueueUrl=self._url, Entries=entries)
        return [record["body"] for record in event["Records"] if record["messageId"] in reported]

    def send(self, body: str) -> None:
        """Anything at all."""
        ordering = {"MessageGroupId": "g", "MessageDeduplicationId": body} if self._queue.sqs.endswith(".fifo") else {}
        self._sqs.send_message(QueueUrl=self._url, MessageBody=body, **ordering)
