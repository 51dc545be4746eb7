"""The command `turnstile`: as a shell runs it, and in this process, where a run does not cost a second of imports."""

import os
import subprocess
import sys
from dataclasses import dataclass

from typer.testing import CliRunner

from turnstile.ops.command_list import app

NOBODY = "00000000-0000-7000-8000-000000000000"
"""The id of no turn."""

NOWHERE = "postgresql://127.0.0.1:1/x"
"""A database that does not answer."""


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int | None
    out: str
    err: str


def invoke(*arguments: str, text: str = "", **environment: str | None) -> Ran:
    """Runs a command in this process; `text` goes to its standard input. Not inside a running event loop."""
    result = CliRunner().invoke(app, arguments, input=text, env=environment, prog_name="turnstile")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def invoke_plain(*arguments: str, text: str = "", **environment: str) -> Ran:
    """The same, without the variables by which a developer's shell may point at a stack."""
    ours = [name for name in os.environ if name.startswith(("TURNSTILE_", "DATABASE_URL"))]
    plain: dict[str, str | None] = {**dict.fromkeys(ours), "AWS_REGION": "us-east-1", **environment}
    return invoke(*arguments, text=text, **plain)


def turnstile(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """The real command as a process, without the variables by which a developer's shell may point at a stack."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("TURNSTILE_", "DATABASE_URL"))}
    return subprocess.run(
        [sys.executable, "-m", "turnstile.ops.main", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        stdin=subprocess.DEVNULL,
        env={**plain, "AWS_REGION": "us-east-1", **environment},
    )
