"""`turnstile new`: writes a small project, which `turnstile dev` runs."""

import re
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from turnstile.dev.home import program_name
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.output import say

NAME_IN_TEMPLATE = "my-agent"
RENAMED = {"gitignore": ".gitignore"}
"""Files that would have an effect in Turnstile's own repository under their name."""
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


def new(
    folder: Annotated[Path, typer.Argument(help="The folder to make, such as my-agent.", show_default=False)],
) -> None:
    """Write a small project: a handler that streams, its test, a chat page."""
    name = folder.resolve().name
    if not _NAME.fullmatch(name):
        raise CommandError(f"{name!r} can't name a project: use A-Z a-z 0-9 . _ -", ExitCode.USAGE)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandError(f"{folder} exists and is not an empty folder: choose another name", ExitCode.USAGE)
    with as_file(files("turnstile.dev.new").joinpath("template")) as template:
        write(template, folder, name)
    say(f"{folder} has a handler, its test and a chat page. Next:")
    say(f"  cd {folder}")
    say(f"  {program_name()} dev")


def write(template: Path, folder: Path, name: str) -> None:
    """Copies the template into the folder, with this name in place of its own."""
    for file in sorted(template.rglob("*")):
        if not file.is_file() or "__pycache__" in file.parts:
            continue
        place = folder / file.relative_to(template)
        place = place.with_name(RENAMED.get(place.name, place.name))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(file.read_text("utf-8").replace(NAME_IN_TEMPLATE, name), "utf-8")
