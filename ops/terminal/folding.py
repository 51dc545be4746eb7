"""Folds text for people to the width of the terminal, and of 80 columns in a pipe. What is to be copied stays whole."""

import re
import shutil
import textwrap

_SPACE = "\N{NO-BREAK SPACE}"


def terminal_columns() -> int:
    """COLUMNS of the environment, else of the terminal, else 80."""
    return shutil.get_terminal_size().columns


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
