"""Imports the user's handler that the settings name."""

import asyncio
import importlib
import sys
import traceback
from pathlib import Path

from turnstile.errors import SettingsError
from turnstile.handlers.handler import Handler
from turnstile.handlers.handler_signature import UnfitHandlerError

_OWN = Path(__file__).parents[2]
"""The package `turnstile`."""
_IMPORT_MACHINERY = Path(importlib.__file__)


def load(name: str | None) -> Handler:
    """The handler `module:function`; the module may be in the working directory.

    Raises SettingsError: one line with the reason, and with file and line if they are known.
    """
    if not name:
        raise SettingsError("TURNSTILE_HANDLER: is not set; name a module:function")
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise SettingsError(f"TURNSTILE_HANDLER: expected module:function, got {name!r}")
    if module_name.endswith(".py"):
        without = module_name.removesuffix(".py").replace("/", ".")
        raise SettingsError(f"TURNSTILE_HANDLER: {module_name} is a file; name its module: {without}:{attribute}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module_name), attribute)
        return found if isinstance(found, Handler) else Handler(found)
    except (Exception, SystemExit) as error:
        # The user's module runs here, and may raise anything.
        where = f"; looked for in {here}, too" if getattr(error, "name", None) == module_name else ""
        raise SettingsError(f"TURNSTILE_HANDLER: {name}: {_explain(error)}{where}") from error
    finally:
        # A module may have set another (uvloop.install()): its watcher of child processes does not fit the worker's loop.
        asyncio.set_event_loop_policy(None)


def _explain(error: BaseException) -> str:
    text = (str(error).splitlines() or [""])[0]
    if not isinstance(error, UnfitHandlerError):
        text = f"{type(error).__name__}: {text}"
    elif error.place is not None:
        return text
    # The text of a SyntaxError already has its file and line.
    place = None if isinstance(error, SyntaxError) else _place_in_the_module(error)
    return text if place is None else f"{text} ({place})"


def _place_in_the_module(error: BaseException) -> str | None:
    """The innermost line in the user's module or in modules of the same folder. Lines of libraries that they call do
    not count."""
    frames = [
        (Path(frame.filename), frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<")
    ]
    outside = [(path, line) for path, line in frames if _OWN not in path.parents and path != _IMPORT_MACHINERY]
    if not outside:
        return None
    folder = outside[0][0].parent
    own = [
        (path, line)
        for path, line in outside
        if folder in path.parents and "site-packages" not in path.relative_to(folder).parts
    ]
    path, line = own[-1]
    return f"{path}, line {line}"
