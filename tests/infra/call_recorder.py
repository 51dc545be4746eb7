"""A botocore plugin that writes down each call of a process to AWS: under which role it was made, which action, on what.

Switched on from outside (BOTOCORE_EXPERIMENTAL__PLUGINS), so that nothing in the product knows of it. Each process of the product
makes a client of botocore, to find the endpoint. The calls of the product's own client of SQS do not pass through botocore, so
the plugin wraps that client, too.
"""

import json
import os
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from tests.support.given_queues import ROLE
from turnstile.backends.sqs.sqs_client import SqsClient

VARIABLE = "TURNSTILE_TEST_CALLS"


@dataclass(frozen=True, slots=True)
class Call:
    """One kind of call."""

    role: str
    """`worker-turns`, `api`, `relay`, `operator`, `function` …"""
    action: str
    """As IAM names it: a batch needs the permission of its single call."""
    on: str
    """The queue's name in SQS, or the secret's ARN."""


def switched_on(file: Path) -> dict[str, str]:
    """Environment that records a process's calls into the file."""
    return {"BOTOCORE_EXPERIMENTAL__PLUGINS": f"recorder={__name__}", VARIABLE: str(file)}


def initialize_client_plugin(client: Any) -> None:
    """What botocore calls for each client that is made."""
    client.meta.events.register("before-parameter-build.*.*", _write_of_boto3)
    if not hasattr(SqsClient.call, "__wrapped__"):
        SqsClient.call = _recorded(SqsClient.call)  # type: ignore[method-assign]


def _recorded(call: Any) -> Any:
    @wraps(call)
    async def recorded(client: SqsClient, operation: str, parameters: dict[str, Any], **options: Any) -> Any:
        # A process of the tests calls as itself, too.
        if ROLE in os.environ:
            _write("sqs", operation, parameters)
        return await call(client, operation, parameters, **options)

    return recorded


def _write_of_boto3(params: dict[str, Any], model: Any, **_: Any) -> None:
    _write(model.service_model.service_name, model.name, params)


def _write(service: str, operation: str, params: dict[str, Any]) -> None:
    queue = str(params.get("QueueUrl") or params.get("QueueName") or "").rpartition("/")[2]
    call = Call(os.environ[ROLE], f"{service}:{operation.removesuffix('Batch')}", queue or params.get("SecretId", ""))
    # One write of one line: many processes append to the file.
    with Path(os.environ[VARIABLE]).open("a") as file:
        file.write(json.dumps(asdict(call)) + "\n")


def read_calls(file: Path) -> set[Call]:
    """What was recorded, each kind of call once."""
    return {Call(**json.loads(line)) for line in file.read_text().splitlines()}
