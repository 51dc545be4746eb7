"""Loads the settings from the command line, the environment, and the file that declares the queues."""

import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from turnstile.config.settings import PREFIX, Settings
from turnstile.errors import SettingsError

RETENTION = ("retention_days", "archive_days", "records_days")
"""What a file may declare for all queues."""


def load(**overrides: Any) -> Settings:
    """The settings of this process. `overrides` come from the command line. They win over the environment, and the
    environment wins over the config file.

    Raises SettingsError with every invalid setting in one message.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    declared_by = f"{PREFIX}QUEUES"
    try:
        settings = Settings(**given)
        if settings.queues:
            return settings
        declared_by = str(settings.config)
        # Validated again as a whole: the rules that span settings must see the queues.
        named = "config" in settings.model_fields_set
        declared = _declared(settings.config, settings.queue, named=named)
        return Settings(
            **{name: value for name, value in declared.items() if name not in settings.model_fields_set}, **given
        )
    except ValidationError as error:
        raise SettingsError("; ".join(_explain(fault, declared_by) for fault in error.errors())) from None
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _declared(config: Path, only: str, *, named: bool) -> dict[str, Any]:
    """The settings that the file has: the queues, and how long turns are kept."""
    try:
        document = tomllib.loads(config.read_text("utf-8-sig"))
    except FileNotFoundError:
        if named:
            raise SettingsError(
                f"TURNSTILE_CONFIG: the file {config} does not exist; create it, or correct the variable"
            ) from None
        # A single queue, with any name, needs no file.
        return {"queues": ({"name": only},)}
    except OSError as error:
        raise SettingsError(
            f"{config}: cannot be read: {error.strerror}; correct TURNSTILE_CONFIG, or the file's rights"
        ) from None
    except UnicodeDecodeError:
        raise SettingsError(f"{config}: is not UTF-8; save it in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{config}: {error}") from None
    if unknown := sorted(document.keys() - {"queues", *RETENTION}):
        raise SettingsError(
            f"{config}: unknown: {', '.join(unknown)}; a config file may contain only [[queues]] and, above them, "
            f"{', '.join(RETENTION)}; remove the rest"
        )
    queues = document.get("queues")
    if not isinstance(queues, list) or not queues:
        raise SettingsError(f"{config}: declares no queue: add a [[queues]] table")
    return {**document, "queues": tuple(queues)}


def _explain(fault: Any, declared_by: str) -> str:
    """`declared_by`: the file or the variable that declares the queues."""
    message = str(fault["msg"]).removeprefix("Value error, ")
    match fault["loc"]:
        case ():
            return message
        case ("queues", int(index), *keys):
            # The file and the variable use the keys under these names.
            if fault["type"] == "extra_forbidden":
                message = "is not an option of a queue"
            return ": ".join([f"{declared_by}, queue {index + 1}", *map(str, keys), message])
        case place:
            name = str(place[0])
            return f"{name if name.isupper() else f'{PREFIX}{name.upper()}'}: {message}"
