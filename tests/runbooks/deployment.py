"""The deployment that the pages speak of: the names of infra/examples/complete, in an emulator of AWS."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.exceptions import ClientError

from tests.conftest import ROOT
from tests.runbooks.aws_line import Call, read_call, select
from tests.support.probes import wait_until
from turnstile.dev.stack.ports import LOOPBACK, choose_free
from turnstile.dev.stack.sqs import REGION
from turnstile.ops.container_health import is_live

TERRAFORM = "\n".join(path.read_text() for path in sorted((ROOT / "infra/examples/complete").glob("*.tf")))
NAME = "turnstile"
SERVICES = tuple(f"{NAME}-{process}" for process in ("api", "relay", "worker-turns", "worker-strict"))
TASKS = (f"{NAME}-migrate", f"{NAME}-operator")
IMAGES = "chat/turnstile"
NETWORK = '{"awsvpcConfiguration": {"subnets": ["subnet-1"], "securityGroups": ["sg-1"], "assignPublicIp": "DISABLED"}}'

NOT_EMULATED = {
    "RestoreDBInstanceToPointInTime": "the emulator has no such operation",
    "TestFailover": "the emulator has no such operation",
}
"""Operations of which a line is only read, not run: that service, options, types and values exist is all that is known."""


class Deployment:
    """Runs lines of `aws` on it, and reads lines of `terraform`."""

    def __init__(self, port: int) -> None:
        self._session = botocore.session.get_session()
        self._port = port

    def client(self, service: str) -> Any:
        return boto3.client(
            service,  # type: ignore[call-overload]
            endpoint_url=f"http://{LOOPBACK}:{self._port}",
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def build(self) -> None:
        """Makes what Terraform would have made, as far as the pages touch it."""
        ecs, ecr = self.client("ecs"), self.client("ecr")
        ecr.create_repository(repositoryName=IMAGES)
        ecr.put_image(repositoryName=IMAGES, imageManifest="{}", imageTag="before")
        ecs.create_cluster(clusterName=NAME)
        for name in (*SERVICES, *TASKS):
            self.client("logs").create_log_group(logGroupName=f"/turnstile/{name}")
            container = {"name": "turnstile", "image": "turnstile", "memory": 512}
            ecs.register_task_definition(family=name, networkMode="awsvpc", containerDefinitions=[container])
        for name in SERVICES:
            ecs.create_service(cluster=NAME, serviceName=name, taskDefinition=name, desiredCount=2)
        self.client("rds").create_db_instance(
            DBInstanceIdentifier=f"{NAME}-postgres",
            Engine="postgres",
            DBInstanceClass="db.m7g.large",
            AllocatedStorage=100,
            MasterUsername="turnstile_owner",
            MasterUserPassword="of-the-owner",
        )
        for name in ("locks", "memory"):
            self.client("elasticache").create_replication_group(
                ReplicationGroupId=f"{NAME}-{name}",
                ReplicationGroupDescription=name,
                NumCacheClusters=2,
                AutomaticFailoverEnabled=True,
                AuthToken="the-old-token-of-redis",
                TransitEncryptionEnabled=True,
            )

    def build_function(self, name: str) -> str:
        """A Lambda function that a queue feeds; the id of its event source."""
        self.client("sqs").create_queue(QueueName=name)
        function = self.client("lambda")
        function.create_function(
            FunctionName=name,
            PackageType="Image",
            Code={"ImageUri": IMAGES},
            Role=f"arn:aws:iam::000000000000:role/{name}",
        )
        source = f"arn:aws:sqs:{REGION}:000000000000:{name}"
        return str(function.create_event_source_mapping(FunctionName=name, EventSourceArn=source)["UUID"])

    def task(self) -> str:
        """The ARN of a task that runs."""
        return str(self.client("ecs").list_tasks(cluster=NAME)["taskArns"][0])

    def run_aws(self, words: list[str]) -> Any:
        """What `aws` would print; None where the line can only be read. Raises where it would end with an error."""
        call = read_call(words, self._session)
        method = getattr(self.client(call.service), call.method)
        if call.operation.name not in NOT_EMULATED:
            return _shown(call, method(**call.parameters))
        with pytest.raises(ClientError, match="Unknown"):
            method(**call.parameters)
        return None


def _shown(call: Call, answer: dict[str, Any]) -> Any:
    # An empty list of what was asked for is an error in disguise: describe-services of no service.
    assert not answer.get("failures"), answer["failures"]
    shown = select(call.query, answer)
    assert shown is not None, f"--query {call.query} shows nothing"
    return shown


def check_terraform(words: list[str]) -> None:
    """That a line of `terraform` names what infra/examples/complete has. It is not run: nothing here is applied to an account."""
    verb, *options = words
    assert verb == "apply", words
    rest = list(options)
    while rest:
        option, _, value = rest.pop(0).partition("=")
        match option:
            case "-target":
                kind, _, name = value.partition(".")
                assert (kind, _declares("module", name)) == ("module", True), value
            case "-var":
                variable, _, given = rest.pop(0).partition("=")
                assert (_declares("variable", variable), given != "") == (True, True), variable
            case _:
                raise AssertionError(f"no such option: {option}")


def output(name: str) -> str:
    """What `terraform output -raw NAME` prints; of most outputs only something that is not empty."""
    assert _declares("output", name), name
    return NETWORK if name == "task_network" else NAME


def _declares(kind: str, name: str) -> bool:
    return re.search(rf'^{kind} "{name}" ', TERRAFORM, re.MULTILINE) is not None


@contextmanager
def emulated_deployment(home: Path) -> Iterator[Deployment]:
    """Half a second of CPU."""
    port = choose_free()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "GATEWAY_PORT": str(port),
        "BIND_HOST": LOOPBACK,
        "MINISTACK_HOST": LOOPBACK,
        "MINISTACK_REGION": REGION,
        "SERVICES": "ecs,ecr,rds,elasticache,logs,lambda,sqs",
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "ERROR",
        "DOCKER_HOST": "unix:///nonexistent",
        "TMPDIR": str(home),
    }
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ministack"], env=environment, cwd=home, stdout=log, stderr=log
        )
    try:
        wait_until(lambda: process.poll() is not None or is_live(port, "/_ministack/health"))
        assert process.poll() is None, (home / "log").read_text()
        deployment = Deployment(port)
        deployment.build()
        yield deployment
    finally:
        process.kill()
        process.wait()
