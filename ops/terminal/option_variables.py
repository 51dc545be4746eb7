"""The environment variables of command options: `TURNSTILE_REDRIVE_LIMIT` for `redrive --limit`."""

from collections.abc import Iterator
from typing import Any


def option_variables(command: Any, prefix: str) -> Iterator[str]:
    """The variable names of a command and all its subcommands."""
    for parameter in command.params:
        own = parameter.envvar or f"{prefix}_{parameter.name.upper()}"
        yield from [own] if isinstance(own, str) else own
    for name, below in getattr(command, "commands", {}).items():
        yield from option_variables(below, f"{prefix}_{name.replace('-', '_').upper()}")
