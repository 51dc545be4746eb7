"""An SQS API: ministack with all other services disabled."""

import hashlib
import http.client
import importlib.metadata
import json
import os
import shutil
import sys
from pathlib import Path
from typing import ClassVar

from turnstile.ops.dev.stack.lifecycle import Launch, Service, package_folder
from turnstile.ops.dev.stack.ports import LOOPBACK
from turnstile.ops.dev.stack.processes import plain_environment

REGION = "us-east-1"

_OF_PYTHON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH")


class Sqs(Service):
    """SQS on loopback. Queues and messages survive only a clean stop of a durable stack. After a crash, there are no queues."""

    name: ClassVar[str] = "sqs"
    scheme: ClassVar[str] = "http"

    def prepare(self) -> Launch:
        package_folder("ministack")
        folder = self.home / "sqs"
        folder.mkdir(mode=0o700, exist_ok=True)
        kept, before = self._kept / "sqs.json", self.process.recorded_port()
        if kept.exists() and before not in (None, self.port):
            # Saved queues contain their whole URL, and are looked up by it.
            old, new = f"//{LOOPBACK}:{before}/", f"//{LOOPBACK}:{self.port}/"
            kept.write_text(kept.read_text().replace(old, new))
        # Under the caller's account, even root: an unprivileged account often can't enter the virtual environment.
        return Launch([sys.executable, "-m", "ministack"], folder, environment=self._environment())

    def _environment(self) -> dict[str, str]:
        return plain_environment(
            # Needed to run this Python if it is not installed in a standard way.
            **{name: os.environ[name] for name in _OF_PYTHON if name in os.environ},
            GATEWAY_PORT=str(self.port),
            BIND_HOST=LOOPBACK,
            # Without it, queue URLs contain `localhost`, which may resolve to ::1, where no server listens.
            MINISTACK_HOST=LOOPBACK,
            MINISTACK_REGION=REGION,
            MINISTACK_EDITION=self._mark,
            SERVICES="sqs",
            SFTP_ENABLED="0",
            IOT_MTLS_ENABLED="0",
            LOG_LEVEL="WARNING",
            # At start and end, ministack removes every container that looks like its own, so it must not find Docker.
            DOCKER_HOST="unix:///nonexistent",
            # ministack writes a pid file with a predictable name into the temporary folder.
            TMPDIR=str(self.home / "sqs"),
            PERSIST_STATE="1" if self.durable else "0",
            STATE_DIR=str(self._kept),
        )

    def after_start(self) -> None:
        # ministack has read the state. If it stayed, a start after a crash would load it again, with redriven dead letters.
        shutil.rmtree(self._kept, ignore_errors=True)

    def answer(self) -> str | None:
        # http.client, because it is fast to import and ignores proxies.
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=2)
        try:
            connection.request("GET", "/_ministack/health")
            health = json.loads(connection.getresponse().read())
            if health.get("edition") != self._mark:
                return None
            credential = f"Credential=local/20260101/{REGION}/sqs/aws4_request"
            connection.request(
                "POST",
                "/",
                body="{}",
                headers={
                    "Content-Type": "application/x-amz-json-1.0",
                    "X-Amz-Target": "AmazonSQS.ListQueues",
                    "Authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature=none",
                },
            )
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        return str(health.get("version") or importlib.metadata.version("ministack")) if response.status == 200 else None

    @property
    def _kept(self) -> Path:
        return self.home / "sqs" / "kept"

    @property
    def _mark(self) -> str:
        """Identifies the SQS of this stack, because another one may listen on the same port."""
        return f"turnstile-{hashlib.sha256(os.fsencode(self.home)).hexdigest()[:16]}"
