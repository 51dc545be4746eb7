"""The policies allow what a recorded run did, and nothing beyond but what stands here with its reason."""

import json
import os
from pathlib import Path

import pytest

from tests.infra.call_recorder import VARIABLE, Call, read_calls
from tests.infra.policies import Grant, grants_of
from tests.support.given_queues import GivenQueues

POLLER = "AWS's poller of event sources calls it with the function's role (AWSLambdaSQSQueueExecutionRole has the same three)"
LAMBDA_LOG = "Lambda writes the function's log with its role (AWSLambdaBasicExecutionRole; the group is Terraform's)"
INTERFACE = "Lambda puts the function into the VPC with its role (AWSLambdaVPCAccessExecutionRole); refused to its code"
PULL = "ECS's agent pulls the image (AmazonECSTaskExecutionRolePolicy)"
AGENT_LOG = "ECS's agent writes the task's log (AmazonECSTaskExecutionRolePolicy)"

NOT_RECORDED: dict[tuple[str, ...], str] = {
    ("worker", "ecs:GetTaskProtection"): "the ECS agent asks in the task's name; there is no agent here",
    ("worker", "ecs:UpdateTaskProtection"): "the same",
    ("relay", "sqs:GetQueueAttributes"): "only where metrics are exported: turnstile_dlq_messages",
    ("function", "sqs:ReceiveMessage"): POLLER,
    ("function", "sqs:GetQueueAttributes"): POLLER,
    ("function", "logs:CreateLogStream"): LAMBDA_LOG,
    ("function", "logs:PutLogEvents"): LAMBDA_LOG,
    ("function", "ec2:CreateNetworkInterface"): INTERFACE,
    ("function", "ec2:DeleteNetworkInterface"): INTERFACE,
    ("function", "ec2:DescribeNetworkInterfaces"): INTERFACE,
    ("function", "ec2:DescribeSubnets"): INTERFACE,
    ("function", "ec2:AssignPrivateIpAddresses"): INTERFACE,
    ("function", "ec2:UnassignPrivateIpAddresses"): INTERFACE,
    ("execution", "ecr:GetAuthorizationToken"): PULL,
    ("execution", "ecr:BatchCheckLayerAvailability"): PULL,
    ("execution", "ecr:BatchGetImage"): PULL,
    ("execution", "ecr:GetDownloadUrlForLayer"): PULL,
    ("execution", "logs:CreateLogStream"): AGENT_LOG,
    ("execution", "logs:PutLogEvents"): AGENT_LOG,
    ("execution", "secretsmanager:GetSecretValue"): "ECS's agent puts the secrets into the task's environment",
}
"""Granted and not seen in the run, with the reason. A grant that is missing here and in the run is one too many."""

ON_EVERYTHING: dict[tuple[str, str], str] = {
    ("execution", "ecr:GetAuthorizationToken"): "AWS offers no narrower resource",
    **{(role, action): "as in AWS's own policy" for role, action, *_ in NOT_RECORDED if action.startswith("ec2:")},
}
"""Granted on every resource, with the reason."""

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


def arn_of(given: GivenQueues, called: str) -> str:
    """The ARN of what was called: a queue by its name in SQS, or a secret."""
    if called.startswith("arn:"):
        return called
    arns = [arn for one in given.terraform["access"].values() for arn in (one["arn"], one["dlq_arn"])]
    return next(arn for arn in arns if arn.endswith(f":{called}"))


def test_every_recorded_call_is_allowed(given: GivenQueues, calls: set[Call], grants: dict[str, set[Grant]]) -> None:
    assert {call.role for call in calls} == given.processes.keys() - {"execution"}

    refused = [
        call
        for call in calls
        if not any(grant.covers(call.action, arn_of(given, call.on)) for grant in grants[call.role])
    ]

    assert refused == []


def test_nothing_is_allowed_beyond_what_was_recorded_but_with_a_reason(
    given: GivenQueues, calls: set[Call], grants: dict[str, set[Grant]]
) -> None:
    seen = {(call.role, call.action, arn_of(given, call.on)) for call in calls}
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
    # A function has one queue, too, and its name does not say which.
    own = given.terraform["access"][queue or "turns"]
    target = "dlq" if "-dlq" in grant.resource else "main"
    place = target if grant.resource in (own["arn"], own["dlq_arn"]) else "other"
    found = {(kind, grant.action), (kind, grant.action, place), (kind, "*", place)} & (NOT_RECORDED | SELDOM).keys()
    return min(found, default=None)


def test_nobody_is_granted_anything_on_everything_without_a_reason(grants: dict[str, set[Grant]]) -> None:
    everywhere = {
        (role, grant.action)
        for role, granted in grants.items()
        for grant in granted
        if grant.resource in ("*", "arn:*")
    }

    assert everywhere == ON_EVERYTHING.keys()


def test_the_functions_code_may_not_make_the_interfaces_that_its_role_may(given: GivenQueues) -> None:
    [denied] = [
        one for one in json.loads(given.terraform["policies"]["function"])["Statement"] if one["Effect"] == "Deny"
    ]
    changing = {action for _, action, *_ in NOT_RECORDED if action.startswith("ec2:") and "Describe" not in action}

    assert (set(denied["Action"]), denied["Resource"]) == (changing, ["*"])
    assert list(denied["Condition"]) == ["ArnEquals"]
    [function] = denied["Condition"]["ArnEquals"].values()
    assert function.endswith(":function:check-function")
