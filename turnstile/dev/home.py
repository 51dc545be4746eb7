"""The home of the local stack: the folder of its data, and how commands name it."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

Home = Annotated[Path, typer.Option("--home", envvar="TURNSTILE_HOME", help="The folder of the stack's data.")]
DEFAULT_HOME = Path(".local")
SHORT_POLL = {"TURNSTILE_RECEIVE_WAIT_SECONDS": "1"}
"""Settings for development: a worker finishes its long poll before it stops, here in one second instead of twenty."""


def program_name() -> str:
    """What a line to copy calls this program: its name, or its path if the shell does not find it by its name."""
    own = Path(sys.executable).with_name("turnstile")
    found = shutil.which("turnstile")
    if not own.exists() or (found is not None and own.samefile(found)):
        return "turnstile"
    here = Path.cwd()
    return shlex.quote(str(own.relative_to(here) if own.is_relative_to(here) else own))


def home_option(home: Path) -> str:
    """What a hint for this shell adds to its command: `--home`, unless the shell finds the stack without it.

    Call it before the stack's variables are in the environment of this process: the shell does not have them.
    """
    known = home == Path(os.environ.get("TURNSTILE_HOME", DEFAULT_HOME))
    return "" if known else f" --home {shlex.quote(str(home))}"
