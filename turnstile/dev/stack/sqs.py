"""An SQS API: ministack with all other services disabled."""

import importlib.metadata
import os
import sys
from typing import ClassVar

from turnstile.dev.stack.lifecycle import Service, package_folder
from turnstile.dev.stack.ports import LOOPBACK
from turnstile.dev.stack.processes import Launch, plain_environment
from turnstile.ops.container_health import is_live

REGION = "us-east-1"

_OF_PYTHON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH")


class Sqs(Service):
    """SQS on loopback. After each start it is empty: a relay sends again what is due, and FAILED turns are in the table."""

    name: ClassVar[str] = "sqs"
    scheme: ClassVar[str] = "http"

    def prepare(self) -> Launch:
        package_folder("ministack")
        folder = self.home / "sqs"
        folder.mkdir(mode=0o700, exist_ok=True)
        environment = plain_environment(
            # Needed to run this Python if it is not installed in a standard way.
            **{name: os.environ[name] for name in _OF_PYTHON if name in os.environ},
            GATEWAY_PORT=str(self.port),
            BIND_HOST=LOOPBACK,
            # Without it, queue URLs contain `localhost`, which may resolve to ::1, where no server listens.
            MINISTACK_HOST=LOOPBACK,
            MINISTACK_REGION=REGION,
            SERVICES="sqs",
            SFTP_ENABLED="0",
            IOT_MTLS_ENABLED="0",
            LOG_LEVEL="WARNING",
            # At start and end, ministack removes every container that looks like its own, so it must not find Docker.
            DOCKER_HOST="unix:///nonexistent",
            # ministack writes a pid file with a predictable name into the temporary folder.
            TMPDIR=str(folder),
        )
        # Under the caller's account, even root: an unprivileged account often can't enter the virtual environment.
        return Launch([sys.executable, "-m", "ministack"], folder, environment=environment)

    def answer(self) -> str | None:
        return importlib.metadata.version("ministack") if is_live(self.port, "/_ministack/health") else None
