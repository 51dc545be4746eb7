"""Pools of processes with and without keys, on one database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.sealing import contents, key_text, pool
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.sealing.contents import PLAIN


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """Those of a process that seals with k1."""
    file = tmp_path / "keys.json"
    file.write_text(key_text())
    return settings.model_copy(update={"sealing_keys_file": file})


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    """Of a process that seals with the key k1."""
    async with pool(settings, contents("k1")) as opened:
        yield opened


@pytest.fixture
async def keyless(settings: Settings) -> AsyncIterator[Database]:
    """Of a process without keys."""
    async with pool(settings, PLAIN) as opened:
        yield opened


@pytest.fixture
async def rotated(settings: Settings) -> AsyncIterator[Database]:
    """Of a process that seals with k2, and opens what k1 has sealed."""
    async with pool(settings, contents("k1", "k2", seal_with="k2")) as opened:
        yield opened
