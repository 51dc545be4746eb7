"""What the option `--wait` of a command may say. Imports nothing that waits."""

import math

import typer


def check_wait(seconds: float | None) -> float | None:
    """The value, if time passes that long: neither negative, nor endless, nor no number."""
    if seconds is not None and not 0 <= seconds < math.inf:
        raise typer.BadParameter("must be a number of seconds")
    return seconds
