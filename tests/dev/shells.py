"""Shells in which commands are tried."""

import os
from pathlib import Path


def path_without_the_program() -> list[str]:
    """The PATH of a shell in which no environment of Python is active."""
    return [one for one in os.environ["PATH"].split(os.pathsep) if not Path(one, "turnstile").exists()]
