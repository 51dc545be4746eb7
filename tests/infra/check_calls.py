"""The policies allow what a recorded run did, and nothing beyond but what stands here with its reason."""

import json
import os
from pathlib import Path

import pytest

from tests.given_queues import GivenQueues
from tests.infra.call_recorder import VARIABLE, Call, read_calls
from tests.infra.policies import Grant, grants_of

ROLE_OF_COMMAND = {"api": ["api"], "relay": ["relay"], "worker": ["worker-turns", "worker-strict"]}
OPERATORS = {"redrive", "dlq", "doctor"}

NOT_RECORDED: dict[tuple[str, ...], str] = {
    ("worker", "ecs:GetTaskProtection"): "the ECS agent asks in the task's name; there is no agent here",
    ("worker", "ecs:UpdateTaskProtection"): "the same",
    ("worker", "sqs:SendMessage", "other"): "children of another queue; the recorded run declares one queue at a time",
    ("relay", "sqs:SendMessage", "other"): "it relays for every declared queue; the run declares one at a time",
    ("api", "sqs:SendMessage", "other"): "it submits to every declared queue",
    ("operator", "sqs:SendMessage", "dlq"): "`doctor --repair` sends dead letters that are overdue",
    ("operator", "*", "other"): "it operates on every declared queue",
}
"""Granted and not seen in the run, with the reason. A grant that is missing here and in the run is one too many."""

SELDOM: dict[tuple[str, ...], str] = {
    (
        "worker",
        "sqs:ChangeMessageVisibility",
        "main",
    ): "on FIFO a message is deleted at its claim: only one that waits for "
    "its claim longer than a heartbeat is extended, which a quick machine does not see",
}
"""The same of what a run may see or not."""


@pytest.fixture(scope="module")
def calls() -> set[Call]:
    """What the steps before this one recorded, of the product's processes."""
    return read_calls(Path(os.environ[VARIABLE]))


@pytest.fixture(scope="module")
def grants(given: GivenQueues) -> dict[str, set[Grant]]:
    """What each role may do."""
    return {role: set(grants_of(json.loads(policy))) for role, policy in given.terraform["policies"].items()}


def roles_of(command: str, queue: str) -> list[str]:
    """Under which role a command ran, which for a worker is that of its queue."""
    if command in OPERATORS:
        return ["operator"]
    return [role for role in ROLE_OF_COMMAND[command] if command != "worker" or role.split("-")[1] in queue]


def arn_of(given: GivenQueues, queue: str) -> str:
    """The ARN of a queue by its name in SQS."""
    arns = [arn for one in given.terraform["access"].values() for arn in (one["arn"], one["dlq_arn"])]
    return next(arn for arn in arns if arn.endswith(f":{queue}"))


def test_every_recorded_call_is_allowed(given: GivenQueues, calls: set[Call], grants: dict[str, set[Grant]]) -> None:
    assert {call.command for call in calls} >= {"api", "relay", "worker", "redrive", "dlq", "doctor"}

    refused = [
        call
        for call in calls
        for role in roles_of(call.command, call.queue)
        if not any(grant.covers(call.action, arn_of(given, call.queue)) for grant in grants[role])
    ]

    assert refused == []


def test_nothing_is_allowed_beyond_what_was_recorded_but_with_a_reason(
    given: GivenQueues, calls: set[Call], grants: dict[str, set[Grant]]
) -> None:
    seen = {
        (role, call.action, arn_of(given, call.queue)) for call in calls for role in roles_of(call.command, call.queue)
    }
    idle = {
        (role, grant)
        for role, granted in grants.items()
        for grant in granted
        if (role, grant.action, grant.resource) not in seen
    }
    reasons = {(role, grant): reason_of(given, role, grant) for role, grant in idle}

    assert [unexplained for unexplained, reason in reasons.items() if reason is None] == []
    assert NOT_RECORDED.keys() - reasons.values() == set(), "reasons for what was recorded, or is not granted"


def reason_of(given: GivenQueues, role: str, grant: Grant) -> tuple[str, ...] | None:
    """Which entry of the lists above says why a grant was not used."""
    kind, _, queue = role.partition("-")
    own = given.terraform["access"][queue or "turns"]
    target = "dlq" if "-dlq" in grant.resource else "main"
    place = target if grant.resource in (own["arn"], own["dlq_arn"]) else "other"
    found = {(kind, grant.action), (kind, grant.action, place), (kind, "*", place)} & (NOT_RECORDED | SELDOM).keys()
    return min(found, default=None)


def test_nobody_is_granted_everything(grants: dict[str, set[Grant]]) -> None:
    everywhere = {
        (role, grant) for role, granted in grants.items() for grant in granted if grant.resource in ("*", "arn:*")
    }

    assert everywhere == set()
