"""The variables by which the options of the commands can be given: `TURNSTILE_REDRIVE_LIMIT` for `redrive --limit`."""

from collections.abc import Iterator
from typing import Any


def option_variables(command: Any, prefix: str) -> Iterator[str]:
    """The names for a command and all below it."""
    for parameter in command.params:
        own = parameter.envvar or f"{prefix}_{parameter.name.upper()}"
        yield from [own] if isinstance(own, str) else own
    for name, below in getattr(command, "commands", {}).items():
        yield from option_variables(below, f"{prefix}_{name.replace('-', '_').upper()}")
