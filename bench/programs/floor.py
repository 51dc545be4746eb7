"""`floor`: receive and delete with boto3 as it is usually used, on three threads, and no work in between.

What a worker with boto3 costs before it has done anything. Code of ours is in it only to say that a handler begins.
"""

from threading import Thread
from typing import Any

import boto3
from botocore.config import Config

from bench.programs.terms import QUEUE_URL, begin

THREADS = 3


def poll(sqs: Any) -> None:
    while True:
        answer = sqs.receive_message(QueueUrl=QUEUE_URL, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        messages = answer.get("Messages", [])
        for number, _ in enumerate(messages):
            begin(number)
        if messages:
            entries = [{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate(messages)]
            sqs.delete_message_batch(QueueUrl=QUEUE_URL, Entries=entries)


def main() -> None:
    sqs = boto3.client("sqs", config=Config(max_pool_connections=THREADS))
    threads = [Thread(target=poll, args=(sqs,)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()


if __name__ == "__main__":
    main()
