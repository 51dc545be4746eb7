"""The command `turnstile` as a shell runs it."""

import os
import subprocess
import sys

NOBODY = "00000000-0000-7000-8000-000000000000"
"""The id of no turn."""


def turnstile(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """The real command. Without the variables by which a developer's shell may point at a stack."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("TURNSTILE_", "DATABASE_URL"))}
    return subprocess.run(
        [sys.executable, "-m", "turnstile.ops.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        stdin=subprocess.DEVNULL,
        env={**plain, "AWS_REGION": "us-east-1", **environment},
    )
