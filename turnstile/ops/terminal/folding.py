"""Folds text for people to the width of their terminal, and never in a pipe. What is to be copied stays whole."""

import re
import shutil
import textwrap

_SPACE = "\N{NO-BREAK SPACE}"
_NEVER = 100_000
"""More columns than any line has."""


def terminal_columns() -> int:
    """The columns of the terminal, or of the variable COLUMNS; without a terminal more than any line has."""
    return shutil.get_terminal_size((_NEVER, 0)).columns


def whole(text: str) -> str:
    """The text as one word, which `fold` does not break."""
    return text.replace(" ", _SPACE)


def fold(text: str, columns: int, *, indent: str = "", further: str = "  ") -> list[str]:
    """The lines of a text; `further` is the indent of those after the first. A command in backticks is one word."""
    commands_whole = re.sub(r"`[^`]*`", lambda command: whole(command[0]), text)
    lines = textwrap.wrap(
        commands_whole,
        columns,
        initial_indent=indent,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_SPACE, " ") for line in lines]
