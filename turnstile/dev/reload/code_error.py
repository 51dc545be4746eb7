"""An error of the user's code as one block that a person can read: file and line, the line itself, the error. Pure."""

import traceback
from collections.abc import Iterator
from pathlib import Path

_OWN = Path(__file__).parents[2]
"""The package `turnstile`."""


def describe(error: BaseException, folder: Path) -> str:
    """The block. Of the stack it has the frames of the user's code; if there are none, all frames that are not Turnstile's.
    A syntax error says its place itself.

    `folder`: files in it are named from there.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_foreign(frame.filename)]
    own = [frame for frame in frames if _is_users(Path(frame.filename), folder)]
    shown = own or ([] if isinstance(error, SyntaxError) else frames)
    lines = [line for frame in shown for line in _frame(frame, folder)]
    said = "".join(traceback.format_exception_only(error)).rstrip()
    if isinstance(error, SyntaxError) and error.filename is not None:
        # Its own text names the file, by its whole path.
        said = said.replace(f'File "{error.filename}"', f'File "{_shorten(Path(error.filename), folder)}"')
    return "\n".join([*lines, said])


def _is_foreign(name: str) -> bool:
    return not name.startswith("<") and _OWN not in Path(name).parents and "importlib" not in Path(name).parts


def _is_users(path: Path, folder: Path) -> bool:
    return folder in path.parents and "site-packages" not in path.parts


def _frame(frame: traceback.FrameSummary, folder: Path) -> Iterator[str]:
    yield f'  File "{_shorten(Path(frame.filename), folder)}", line {frame.lineno}, in {frame.name}'
    if frame.line:
        yield f"    {frame.line}"


def _shorten(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)
