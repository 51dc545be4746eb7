"""Loads the settings from the command line, the environment, and the file that declares queues, limits and retention."""

import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from turnstile.config.settings import PREFIX, Settings
from turnstile.errors import SettingsError

TABLES = {"queues": "queue", "rates": "rate limit", "limits": "limit"}
"""The lists that the file may declare, and what one entry of each is called. Each is also a field of the settings."""
RETENTION = ("retention_days", "archive_days", "records_days")
"""What the file may declare for all queues, above the lists."""


def load(**overrides: Any) -> Settings:
    """The settings of this process. `overrides` come from the command line. They win over the environment, and what the
    environment sets, such as a list, wins over the same of the config file.

    Raises SettingsError with every invalid setting in one message.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    declared: dict[str, Any] = {}
    config = Path()
    try:
        settings = Settings(**given)
        config = settings.config
        wanted = {*TABLES, *RETENTION} - settings.model_fields_set
        # Nobody misses the file where the environment declares the queues.
        named = "config" in settings.model_fields_set and "queues" in wanted
        document = _read(config, named=named)
        declared = {name: value for name, value in (document or {}).items() if name in wanted}
        if "queues" in wanted - declared.keys():
            if document is not None:
                raise SettingsError(f"{config}: declares no queue: add a [[queues]] table")
            # A single queue, with any name, needs no file.
            declared["queues"] = ({"name": settings.queue},)
        # Validated again as a whole: the rules that span settings must see the queues.
        return Settings(**given, **declared) if declared else settings
    except ValidationError as error:
        raise SettingsError("; ".join(_explain(fault, config, declared) for fault in error.errors())) from None
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _read(config: Path, *, named: bool) -> dict[str, Any] | None:
    """What the file declares; None if there is no file, unless the settings have `named` it."""
    try:
        document = tomllib.loads(config.read_text("utf-8-sig"))
    except FileNotFoundError:
        if named:
            raise SettingsError(
                f"TURNSTILE_CONFIG: the file {config} does not exist; create it, or correct the variable"
            ) from None
        return None
    except OSError as error:
        raise SettingsError(
            f"{config}: cannot be read: {error.strerror}; correct TURNSTILE_CONFIG, or the file's rights"
        ) from None
    except UnicodeDecodeError:
        raise SettingsError(f"{config}: is not UTF-8; save it in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{config}: {error}") from None
    if unknown := sorted(document.keys() - {*TABLES, *RETENTION}):
        allowed = ", ".join(f"[[{name}]]" for name in TABLES)
        raise SettingsError(
            f"{config}: unknown: {', '.join(unknown)}; a config file may contain only {allowed} and, above them, "
            f"{', '.join(RETENTION)}; remove the rest"
        )
    for name in TABLES.keys() & document.keys():
        if not isinstance(document[name], list) or not document[name]:
            raise SettingsError(f"{config}: {name} declares nothing: write [[{name}]] tables")
        document[name] = tuple(document[name])
    return document


def _explain(fault: Any, config: Path, in_file: dict[str, Any]) -> str:
    """`in_file`: the lists that the file `config` declares. The environment declares the others."""
    message = str(fault["msg"]).removeprefix("Value error, ")
    match fault["loc"]:
        case ():
            return message
        case (str(table), int(index), *keys) if table in TABLES:
            # The file and the variable use the keys under these names.
            if fault["type"] == "extra_forbidden":
                message = f"is not an option of a {TABLES[table]}"
            declared_by = str(config) if table in in_file else f"{PREFIX}{table.upper()}"
            # Of a field with several types, the last part of the place names one of them.
            return ": ".join([f"{declared_by}, {TABLES[table]} {index + 1}", *map(str, keys[:1]), message])
        case ("jwt", str(key), *_):
            return f"{PREFIX}JWT: {key}: {message}"
        case place:
            name = str(place[0])
            return f"{name if name.isupper() else f'{PREFIX}{name.upper()}'}: {message}"
