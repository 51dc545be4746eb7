"""Faults of SQS and of the way to it."""

import asyncio

from tests.proof.chaos.kinds.scene import EVERYBODY, Kind, Scene, Strike


def toxic(name: str, least: float, most: float, **parameters: float | str | list[str]) -> Strike:
    return lambda scene: scene.suffer("sqs", EVERYBODY, name, least, most, **parameters)


def stale_handles(mode: str) -> Strike:
    """Old receipt handles are treated as one of the three does it. Its hits are whatever happens to be deleted late."""

    async def strike(scene: Scene) -> str | None:
        await scene.suffer("sqs", EVERYBODY, "stale_handles", 3, 8, mode=mode)
        return mode

    return strike


async def purge(scene: Scene) -> str | None:
    """Every message on the main queue is gone, those in flight too."""
    await asyncio.to_thread(scene.stage.sqs.purge_queue, QueueUrl=scene.stage.queue_url())
    return scene.stage.wiring.queue.sqs


async def cut_off_worker(scene: Scene) -> str | None:
    part = scene.some("worker")
    if part is None:
        return None
    return await scene.suffer("sqs", part.name, scene.rng.choice(["cut", "half_open"]), 1, 5)


KINDS = (
    Kind("sqs-down", toxic("cut", 1, 5), group="sqs-way"),
    Kind("sqs-half-open", toxic("half_open", 1, 4), group="sqs-way"),
    Kind("sqs-slow", toxic("latency", 1, 4, delay=0.15, jitter=0.1), group="sqs-way"),
    Kind("sqs-500s", toxic("error", 1, 4, probability=0.7), group="sqs-answer"),
    Kind("sqs-throttled", toxic("throttle", 1, 4, probability=0.7), group="sqs-answer"),
    Kind("sqs-purged", purge),
    Kind("send-answer-lost", toxic("answer_lost", 1, 3, probability=0.5, actions=["send"]), group="sqs-answer-lost"),
    Kind(
        "receive-answer-lost",
        toxic("answer_lost", 0.5, 2, probability=0.5, actions=["receive"]),
        group="sqs-answer-lost",
    ),
    Kind(
        "delete-answer-lost", toxic("answer_lost", 1, 3, probability=0.7, actions=["delete"]), group="sqs-answer-lost"
    ),
    Kind("delete-lost", toxic("request_lost", 1, 4, probability=0.7, actions=["delete"]), group="sqs-request-lost"),
    Kind("send-lost", toxic("request_lost", 1, 3, probability=0.5, actions=["send"]), group="sqs-request-lost"),
    Kind("batches-partly-refused", toxic("partial_failure", 1, 4, probability=0.5), group="sqs-partial"),
    Kind("messages-duplicated", toxic("duplicate", 2, 6, probability=0.4), group="sqs-receive", fifo=False),
    Kind("messages-reordered", toxic("reorder", 2, 6, probability=0.5), group="sqs-receive", fifo=False),
    Kind("stale-handles-as-on-aws", stale_handles("aws"), group="sqs-handles"),
    Kind("stale-handles-as-on-moto", stale_handles("moto"), group="sqs-handles"),
    Kind("stale-handles-as-on-elasticmq", stale_handles("elasticmq"), group="sqs-handles"),
    Kind("worker-cut-off-from-sqs", cut_off_worker, group="sqs-way"),
)
