"""Finds the user's handler by the name that the settings give it."""

import importlib
import sys
from pathlib import Path

from turns.errors import SettingsError
from worker.handler import Handler


def load(name: str | None) -> Handler:
    """The handler `module:function`, found from the working directory. Raises SettingsError, which says what is wrong."""
    if not name:
        raise SettingsError("TURNSTILE_HANDLER: is not set; name a module:function")
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise SettingsError(f"TURNSTILE_HANDLER: expected module:function, got {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:
        # The module's own code runs here, and may raise anything.
        raise SettingsError(f"TURNSTILE_HANDLER: {name}: {type(error).__name__}: {error}") from error
    if isinstance(found, Handler):
        return found
    if not callable(found):
        raise SettingsError(f"TURNSTILE_HANDLER: {name} is not a function")
    return Handler(found)
