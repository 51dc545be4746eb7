"""A pooler that drops the startup options: its connections are refused, and the error says why."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
import structlog.testing

from tests.support.poolers import refusing_pooler
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, DatabaseUnfitError, SettingsError
from turnstile.ops.migration_run import apply
from turnstile.ops.terminal.operator_access import operator_database


def _without_options(startup: bytes) -> bytes:
    """The startup message without the parameter `options`, as such a pooler forwards it."""
    words = startup[4:].split(b"\0")
    pairs = [(name, value) for name, value in zip(words[::2], words[1::2], strict=False) if name]
    kept = b"".join(name + b"\0" + value + b"\0" for name, value in pairs if name != b"options")
    return startup[:4] + kept + b"\0"


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def pooler(url: str) -> AsyncIterator[str]:
    """A URL of the same database, through a proxy that drops the options."""
    parts = urlsplit(url)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            [length] = struct.unpack("!I", await reader.readexactly(4))
            startup = _without_options(await reader.readexactly(length - 4))
            server_reader, server_writer = await asyncio.open_connection(parts.hostname, parts.port)
            server_writer.write(struct.pack("!I", len(startup) + 4) + startup)
            await asyncio.gather(_pump(reader, server_writer), _pump(server_reader, writer))
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        login, at, _ = parts.netloc.rpartition("@")
        yield f"postgresql://{login}{at}127.0.0.1:{port}{parts.path}?sslmode=disable&gssencmode=disable"


async def test_a_pooler_that_drops_the_options_is_refused(database_url: str) -> None:
    async with pooler(database_url) as url:
        async with await psycopg.AsyncConnection.connect(url) as plain:
            assert await plain.execute("SELECT 1")
        async with Database(DatabasePlace(url), "test-options", size=2, pinned=True, wait_seconds=1.0) as database:
            with (
                structlog.testing.capture_logs() as lines,
                pytest.raises(DatabaseUnavailableError, match="statement_timeout is 0 and not 10000"),
            ):
                await database.fetch("SELECT 1", {})
        with psycopg.connect(database_url) as looking:
            await until(
                lambda: (
                    not looking.execute(
                        "SELECT 1 FROM pg_stat_activity WHERE application_name = 'test-options'"
                    ).fetchall()
                )
            )

    assert [line["log_level"] for line in lines if line["event"] == "database.refused"] == ["error"]


async def test_through_such_a_pooler_no_table_is_made_in_another_schema(stack: Stack) -> None:
    url = stack.postgres.create_database(f"pooled_{uuid4().hex}")
    async with pooler(url) as pooled:
        with pytest.raises(SettingsError, match="not turnstile: what DATABASE_URL leads to drops"):
            await asyncio.to_thread(apply, DatabasePlace(pooled))

    with psycopg.connect(url) as looking:
        assert looking.execute("SELECT FROM pg_class WHERE relname = 'turns'").fetchall() == []
    stack.postgres.drop_database(urlsplit(url).path[1:])


@pytest.mark.parametrize("parameter", [": options", " in options: search_path"])
async def test_a_pooler_that_refuses_the_options_is_named_with_what_to_do(
    parameter: str, caplog: pytest.LogCaptureFixture
) -> None:
    sentence = "refuses a connection's startup options, as PgBouncer does; let it lead to Postgres itself"
    async with refusing_pooler(parameter) as url:
        with pytest.raises(SettingsError, match=sentence):
            await asyncio.to_thread(apply, DatabasePlace(url), wait_seconds=30.0)
        async with Database(DatabasePlace(url), "test-options", size=1, wait_seconds=0.5) as database:
            with structlog.testing.capture_logs() as lines, pytest.raises(DatabaseUnfitError, match=sentence):
                await database.fetch("SELECT 1", {})
        with pytest.raises(DatabaseUnavailableError, match=sentence):
            async with operator_database(Settings(database_url=url)):
                pass

    assert sentence in caplog.text
    assert [line["log_level"] for line in lines if line["event"] == "database.refused"] == ["error"]


async def test_other_options_in_the_url_are_accepted(database_url: str) -> None:
    options = "options=-c%20work_mem%3D8MB%20-c%20statement_timeout%3D1"
    joint = "&" if "?" in database_url else "?"
    async with Database(
        DatabasePlace(f"{database_url}{joint}{options}"), "test-options", size=1, pinned=True
    ) as database:
        assert await database.fetch("SHOW work_mem", {}) == [{"work_mem": "8MB"}]
