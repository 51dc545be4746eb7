"""The stack with SQS as the caller's environment names it: real queues at AWS, that the run was given and gives back empty.

Postgres and Redis are the embedded stack's. Credentials, region and, for a rehearsal on an emulator, the endpoint are what the
AWS SDK finds in the environment. No test may make, change, purge or delete a queue here: they belong to others.
"""

import os
from collections.abc import Callable
from typing import Any, NoReturn

import boto3
import pytest

from tests.support.given_queues import GivenQueues, empty
from tests.support.stacks.stack import Service
from turnstile.dev.stack.stack import LocalStack

FORBIDDEN = ("CreateQueue", "DeleteQueue", "PurgeQueue", "SetQueueAttributes")


class AwsStack:
    """Two services of this machine, and queues elsewhere."""

    def __init__(self, local: LocalStack) -> None:
        self.home = local.home
        self.postgres = local.postgres
        self.redis = local.redis
        self._local = local

    @property
    def sqs(self) -> Service:
        """Skips the test that asks: there is no service to stop, or to go through."""
        pytest.skip("not on aws: it stops SQS, or puts something before it")

    def environment(self) -> dict[str, str]:
        """The embedded stack's, with the SQS of the caller's environment."""
        own = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        ours = {name: value for name, value in self._local.environment().items() if not name.startswith("AWS_")}
        return ours | own


def protect(client: Any) -> None:
    """Skips the test that would do with this client what no test may do here."""
    for action in FORBIDDEN:
        client.meta.events.register(f"before-call.sqs.{action}", _refuser(action))


def _refuser(action: str) -> Callable[..., NoReturn]:
    def refuse(**_: object) -> NoReturn:
        pytest.skip(f"not on aws: it calls {action}")

    return refuse


def give_back(given: GivenQueues) -> None:
    """Leaves the queues empty."""
    client = boto3.client("sqs")
    for url in given.urls:
        empty(client, url)
