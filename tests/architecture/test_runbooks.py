"""The commands of the runbooks exist, with the options that the pages give them, and every page is found from the README."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from turnstile.ops.command_line import app

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/runbooks").glob("*.md"))
FENCE = re.compile(r"^ *```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(turnstile [a-z][^`]*)`")


def commands_of(page: Path) -> Iterator[str]:
    """The calls of `turnstile` on a page, without what they are piped into."""
    text = page.read_text()
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip().startswith("turnstile "):
                yield line.strip()
    yield from INLINE.findall(text)


def fault(line: str) -> str | None:
    """What is wrong with a call; None: nothing, as far as its names tell."""
    words = shlex.split(re.split(r" [#|<>]", line)[0])[1:]
    command: Any = get_command(app)
    while words and hasattr(command, "commands"):
        if words[0] not in command.commands:
            return f"{words[0]} is no command"
        command = command.commands[words.pop(0)]
        command = command.load() if hasattr(command, "load") else command
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if word[:1] == "-" and word != "-" and word.partition("=")[0] not in known]
    return f"no such option: {unknown}" if unknown else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    assert {line: found for line in commands_of(page) if (found := fault(line))} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_is_found_from_the_readme(page: Path) -> None:
    assert f"(docs/runbooks/{page.name})" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("turnstile doctor --json # comment --nothing", None),
        ("turnstile dlq list --queue turns | jq --raw", None),
        ("turnstile doctors", "doctors is no command"),
        ("turnstile dlq lists", "lists is no command"),
        ("turnstile doctor --jsn", "no such option: ['--jsn']"),
    ],
)
def test_a_call_is_judged_by_its_names(line: str, found: str | None) -> None:
    assert fault(line) == found
