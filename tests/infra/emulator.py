"""An emulator of AWS that asks for permission: TLS, signatures checked, IAM policies and queue policies enforced.

The embedded stack's SQS is the same program without all that. Here a call that no policy allows is refused, so whatever works
under a role works because its policy says so.
"""

import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from tests.infra.terraform import InfraError, MissingError
from tests.support.probes import wait_until
from turnstile.dev.stack.ports import LOOPBACK, choose_free

REGION = "us-east-1"
SERVICES = "sqs,iam,sts,sns,monitoring,logs,events,secretsmanager"
START_SECONDS = 90.0
BATCHED = {"sqs:SendMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"}


@dataclass(frozen=True, slots=True)
class Emulator:
    """Where it is, and how to speak to it as its root."""

    port: int
    certificate: Path

    @property
    def address(self) -> str:
        return f"https://{LOOPBACK}:{self.port}"

    @property
    def root(self) -> dict[str, str]:
        """Environment of whoever may do everything."""
        return self.environment("test", "test")

    def environment(self, key: str, secret: str, token: str = "") -> dict[str, str]:
        """Environment of somebody with these credentials."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ENDPOINT_URL_SQS": self.address,
            "AWS_CA_BUNDLE": str(self.certificate),
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            **({"AWS_SESSION_TOKEN": token} if token else {}),
        }

    def assume(self, role_arn: str) -> dict[str, str]:
        """Environment of a process with this role, as ECS would hand it out."""
        answer = client("sts", self.root).assume_role(RoleArn=role_arn, RoleSessionName="check", DurationSeconds=3600)
        keys = answer["Credentials"]
        return self.environment(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])

    def admit_batches(self, role_arn: str, policy: str) -> None:
        """Lets a role make in batches the calls that its policy lets it make singly.

        On AWS it may: there is no permission of its own for a batch. This emulator asks for `sqs:SendMessageBatch`, which AWS
        does not know and Terraform therefore must not grant.
        """
        document = json.loads(policy)
        document["Statement"] = [
            {**statement, "Action": [f"{action}Batch" for action in statement["Action"] if action in BATCHED]}
            for statement in document["Statement"]
            if BATCHED & set(statement["Action"])
        ]
        if not document["Statement"]:
            return
        client("iam", self.root).put_role_policy(
            RoleName=role_arn.rpartition("/")[2], PolicyName="batches", PolicyDocument=json.dumps(document)
        )

    def answers(self) -> bool:
        """Whether it is up."""
        if not self.certificate.exists():
            return False
        try:
            connection = http.client.HTTPSConnection(
                LOOPBACK, self.port, timeout=2, context=ssl.create_default_context(cafile=str(self.certificate))
            )
            connection.request("GET", "/_ministack/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False


def client(service: str, environment: dict[str, str]) -> Any:
    """A boto3 client of somebody's."""
    return boto3.client(
        service,
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        region_name=environment["AWS_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=environment.get("AWS_SESSION_TOKEN"),
        verify=environment["AWS_CA_BUNDLE"],
    )


@contextmanager
def emulate(home: Path) -> Iterator[Emulator]:
    """Runs one, with its files in `home`. Raises MissingError, or InfraError if it does not come up."""
    if shutil.which("openssl") is None:
        raise MissingError("openssl is not on the PATH; the emulator makes its certificate with it")
    home.mkdir()
    emulator = Emulator(choose_free(), home / "ministack-tls" / "server.crt")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "GATEWAY_PORT": str(emulator.port),
        "BIND_HOST": LOOPBACK,
        "MINISTACK_HOST": LOOPBACK,
        "MINISTACK_REGION": REGION,
        "SERVICES": SERVICES,
        "AUTH": "true",
        "USE_SSL": "1",
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
        "DOCKER_HOST": "unix:///nonexistent",
        "TMPDIR": str(home),
        "PERSIST_STATE": "0",
    }
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ministack"], env=environment, cwd=home, stdout=log, stderr=log
        )
    try:
        wait_until(lambda: process.poll() is not None or emulator.answers(), within=START_SECONDS)
        if process.poll() is not None:
            raise InfraError(f"the emulator ended while starting:\n{(home / 'log').read_text()[-2000:]}")
        yield emulator
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
