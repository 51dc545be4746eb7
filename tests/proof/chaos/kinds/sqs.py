"""Faults of SQS and of the way to it."""

import asyncio

from tests.proof.chaos.kinds.scene import ALL, Kind, Scene, Strike, cut_off_worker, toxic


def stale_handles(mode: str) -> Strike:
    """Old receipt handles are treated as AWS, moto or ElasticMQ treats them."""

    async def strike(scene: Scene) -> str | None:
        await scene.suffer("sqs", ALL, "stale_handles", 3, 8, mode=mode)
        return mode

    return strike


async def purge(scene: Scene) -> str | None:
    """Every message on the main queue is gone, those in flight too."""
    await asyncio.to_thread(scene.servers.sqs.purge_queue, QueueUrl=scene.servers.queue_url(scene.servers.queue))
    return scene.servers.queue


KINDS = (
    Kind("sqs-down", toxic("sqs", "cut", 1, 5), group="sqs-way"),
    Kind("sqs-half-open", toxic("sqs", "half_open", 1, 4), group="sqs-way"),
    Kind("sqs-slow", toxic("sqs", "latency", 1, 4, delay=0.15, jitter=0.1), group="sqs-way"),
    Kind("sqs-500s", toxic("sqs", "error", 1, 4, probability=0.7), group="sqs-answer"),
    Kind("sqs-throttled", toxic("sqs", "throttle", 1, 4, probability=0.7), group="sqs-answer"),
    Kind("sqs-purged", purge),
    Kind(
        "send-answer-lost",
        toxic("sqs", "answer_lost", 1, 3, probability=0.5, actions=["send"]),
        group="sqs-answer-lost",
    ),
    Kind(
        "receive-answer-lost",
        toxic("sqs", "answer_lost", 0.5, 2, probability=0.5, actions=["receive"]),
        group="sqs-answer-lost",
    ),
    Kind(
        "delete-answer-lost",
        toxic("sqs", "answer_lost", 1, 3, probability=0.7, actions=["delete"]),
        group="sqs-answer-lost",
    ),
    Kind(
        "delete-lost", toxic("sqs", "request_lost", 1, 4, probability=0.7, actions=["delete"]), group="sqs-request-lost"
    ),
    Kind("send-lost", toxic("sqs", "request_lost", 1, 3, probability=0.5, actions=["send"]), group="sqs-request-lost"),
    Kind("batches-partly-refused", toxic("sqs", "partial_failure", 1, 4, probability=0.5), group="sqs-partial"),
    Kind("messages-duplicated", toxic("sqs", "duplicate", 2, 6, probability=0.4), group="sqs-receive", fifo=False),
    Kind("messages-reordered", toxic("sqs", "reorder", 2, 6, probability=0.5), group="sqs-receive", fifo=False),
    Kind("stale-handles-as-on-aws", stale_handles("aws"), group="sqs-handles"),
    Kind("stale-handles-as-on-moto", stale_handles("moto"), group="sqs-handles"),
    Kind("stale-handles-as-on-elasticmq", stale_handles("elasticmq"), group="sqs-handles"),
    Kind("worker-cut-off-from-sqs", cut_off_worker("sqs", 1, 5), group="sqs-way"),
)
