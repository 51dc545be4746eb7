"""The files whose change makes `turnstile dev` start a new worker: the folder of the handler, without what is installed in it."""

import importlib.util
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from watchfiles import Change, awatch

GROUP_MILLISECONDS = 50
"""A quiet time of this length ends a group of changes: an editor writes a file in several steps."""
LONGEST_GROUP_MILLISECONDS = 400
"""A new worker starts after this, even while files go on to change."""

CODE = frozenset({".py", ".toml", ".yaml", ".yml", ".md", ".txt", ".jinja", ".j2"})
"""Code, and what code reads when it is imported, such as prompts. Not what programs write: logs, databases, JSON."""
_NOT_CODE = frozenset({"__pycache__", "node_modules", "site-packages"})

_OWN = Path(__file__).parents[2]
"""The package `turnstile`."""


def find_code(handler: str, here: Path) -> Path | None:
    """The folder to watch for a handler `module:function`: the one where the command runs, or that of the handler's package if
    it is elsewhere. None for code that is installed, which nobody edits."""
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))
    # Only the first name: to look for a module in a package imports the package.
    try:
        spec = importlib.util.find_spec(handler.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError):
        spec = None
    origin = None if spec is None else spec.origin or next(iter(spec.submodule_search_locations or []), None)
    if origin is None:
        return here
    path = Path(origin)
    if "site-packages" in path.parts or path.is_relative_to(_OWN):
        return None
    return here if path.is_relative_to(here) else path.parent


async def watch(code: Path) -> AsyncIterator[frozenset[Path]]:
    """Yields the changed files of the folder, each group as soon as it has ended."""
    while True:
        # Each folder by itself, not the tree: an environment or `node_modules` in it has thousands of folders.
        changes = awatch(
            *_find_folders(code),
            watch_filter=_is_code,
            debounce=LONGEST_GROUP_MILLISECONDS,
            step=GROUP_MILLISECONDS,
            recursive=False,
        )
        async for group in changes:
            changed = frozenset(Path(path) for _, path in group)
            yield changed
            if any(path.is_dir() for path in changed):
                break  # a new folder: watch it, too


def _find_folders(code: Path) -> Iterator[Path]:
    for folder, below, files in os.walk(code):
        if "pyvenv.cfg" in files:
            below.clear()
            continue
        below[:] = [name for name in below if not _is_left_out(name)]
        yield Path(folder)


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name in _NOT_CODE


def _is_code(change: Change, path: str) -> bool:
    changed = Path(path)
    if _is_left_out(changed.name):
        return False
    return changed.suffix in CODE or (change is Change.added and changed.is_dir())
