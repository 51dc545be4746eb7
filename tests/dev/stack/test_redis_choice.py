"""Which redis-server the embedded stack starts: the newest of the installed one and the packaged one."""

from pathlib import Path

import pytest

import turnstile.dev.stack.redis
from turnstile.dev.stack.processes import LocalStackError
from turnstile.dev.stack.redis import Redis
from turnstile.dev.stack.run_as import RunAs


def put_server(folder: Path, version: str) -> Path:
    """A program that is called redis-server and says this version."""
    folder.mkdir(parents=True)
    program = folder / "redis-server"
    program.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=00000000:0 malloc=libc bits=64 build=0'\n")
    program.chmod(0o755)
    return program


def choose(monkeypatch: pytest.MonkeyPatch, folder: Path, on_path: str, packaged: str) -> Path:
    """The one that is started, of these versions."""
    monkeypatch.setenv("PATH", f"{put_server(folder / 'path', on_path).parent}:/usr/bin:/bin")
    put_server(folder / "package" / "bin", packaged)
    monkeypatch.setattr(turnstile.dev.stack.redis, "package_folder", lambda _: folder / "package")
    return Redis(folder, RunAs(folder, None), 0, password="").find_program()


@pytest.mark.parametrize(
    ("on_path", "packaged", "chosen"),
    [
        ("7.2.4", "6.2.14", "path"),
        ("10.0.0", "9.9.9", "path"),
        ("6.0.16", "6.2.14", "package/bin"),
        ("6.2.9", "6.2.14", "package/bin"),
    ],
)
def test_the_newer_redis_server_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on_path: str, packaged: str, chosen: str
) -> None:
    assert choose(monkeypatch, tmp_path, on_path, packaged) == tmp_path / chosen / "redis-server"


def test_a_redis_server_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(LocalStackError, match=r"no redis-server 6\.2 or newer"):
        choose(monkeypatch, tmp_path, "6.0.16", "5.0.7")
