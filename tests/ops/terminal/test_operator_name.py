"""Who runs a command, as records name them."""

import getpass
import socket
from contextlib import AsyncExitStack

import pytest

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.terminal.operator_access import Operator


def name(settings: Settings, database: Database) -> str:
    return Operator(settings, database, AsyncExitStack()).name


def test_the_setting_names_the_operator(settings: Settings, database: Database) -> None:
    assert name(settings.model_copy(update={"operator": "Ada Lovelace"}), database) == "Ada Lovelace"


def test_without_the_setting_it_is_the_user_at_the_host(settings: Settings, database: Database) -> None:
    assert name(settings, database) == f"{getpass.getuser()}@{socket.gethostname()}"


def test_a_user_without_a_name_is_unknown(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> str:
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr(getpass, "getuser", fail)

    assert name(settings, database) == f"unknown@{socket.gethostname()}"
