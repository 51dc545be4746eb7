"""`--wait` of a command that waits for a turn: alone, with its seconds as the next word, or as `--wait=5`."""

from typing import Any

from typer.core import TyperCommand

WAIT_SECONDS = 300.0
"""Where none are named."""


class WaitingCommand(TyperCommand):
    """A command whose `--wait` may stand alone, which Typer cannot say. The next word is its seconds if it is a number."""

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
