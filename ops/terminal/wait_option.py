"""The option `--wait` of a command: alone, with the seconds as the next argument, or as `--wait=5`."""

from typing import Any

from typer.core import TyperCommand

WAIT_SECONDS = 300.0
"""Default wait, if `--wait` has no number."""


class WaitingCommand(TyperCommand):
    """A command with `--wait` with or without a value, which Typer does not support. The next argument is its value if it is a
    number."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        spelt = list(args[:end])
        for place, word in enumerate(args[:end]):
            if word == "--wait" and not _is_number("".join(args[place + 1 : end][:1])):
                spelt[place] = f"--wait={WAIT_SECONDS:g}"
        return super().parse_args(ctx, spelt + args[end:])


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
