"""Keys for tests that seal contents."""

import base64
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.sealing.contents import Contents
from turnstile.sealing.data_keys import parse_keys


def key_text(ids: Iterable[str] = ("k1",), seal_with: str | None = "k1") -> str:
    """A file of keys. The key of an id is the same in each."""
    keys = {key_id: base64.b64encode(key_id.encode().ljust(32, b"~")).decode() for key_id in ids}
    return json.dumps({"seal_with": seal_with, "keys": keys})


def contents(*ids: str, seal_with: str | None = "k1") -> Contents:
    """What a process with these keys seals with."""
    return Contents(parse_keys(key_text(ids or ("k1",), seal_with)))


@asynccontextmanager
async def pool(settings: Settings, sealed_with: Contents) -> AsyncIterator[Database]:
    """A pool of a process that has these keys."""
    async with Database(
        settings.database, "test", size=2, pinned=True, wait_seconds=30.0, contents=sealed_with
    ) as opened:
        yield opened
