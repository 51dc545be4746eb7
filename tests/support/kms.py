"""A KMS of the emulator that the stack's SQS is of."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.probes import until
from turnstile.dev.stack.ports import LOOPBACK, choose_free
from turnstile.dev.stack.processes import plain_environment
from turnstile.ops.container_health import is_live

END_SECONDS = 30.0


@asynccontextmanager
async def running_kms(folder: Path) -> AsyncIterator[str]:
    """Its URL, while the block lasts."""
    port = choose_free()
    environment = plain_environment(
        **{name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH") if name in os.environ},
        GATEWAY_PORT=str(port),
        BIND_HOST=LOOPBACK,
        MINISTACK_HOST=LOOPBACK,
        SERVICES="kms",
        SFTP_ENABLED="0",
        IOT_MTLS_ENABLED="0",
        LOG_LEVEL="WARNING",
        DOCKER_HOST="unix:///nonexistent",
        TMPDIR=str(folder),
    )
    process = subprocess.Popen([sys.executable, "-m", "ministack"], cwd=folder, env=environment)  # noqa: ASYNC220
    try:
        await until(lambda: asyncio.to_thread(is_live, port, "/_ministack/health"))
        yield f"http://{LOOPBACK}:{port}"
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, END_SECONDS)
