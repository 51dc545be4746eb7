"""An HTTP server as a process of its own: the product's API, or the plain route that it is held against."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from bench.accounting import Tree
from bench.peers import PEERS_BIN
from bench.running import NotMeasuredError
from bench.stage import Room
from turnstile.ops.dev.stack.ports import LOOPBACK, choose_free

START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class HttpServer:
    """One that answers."""

    address: str
    port: int
    tree: Tree


@contextmanager
def serve_api(room: Room, environment: Mapping[str, str]) -> Iterator[HttpServer]:
    """`turnstile api` for as long as the block."""
    port = choose_free()
    command = [sys.executable, "-m", "turnstile.ops.cli", "api"]
    with _serve(room, command, {**environment, "TURNSTILE_API_PORT": str(port)}, port, "/healthz") as server:
        yield server


@contextmanager
def serve_plain_route(room: Room, environment: Mapping[str, str]) -> Iterator[HttpServer]:
    """`bench/programs/plain_route.py` for as long as the block."""
    port = choose_free()
    command = [
        *(str(PEERS_BIN / "python"), "-m", "uvicorn", "bench.programs.plain_route:app"),
        *("--host", LOOPBACK, "--port", str(port), "--log-level", "warning"),
    ]
    with _serve(room, command, environment, port, "/healthz") as server:
        yield server


@contextmanager
def _serve(
    room: Room, command: Sequence[str], environment: Mapping[str, str], port: int, health: str
) -> Iterator[HttpServer]:
    log_file = room.folder / "http.log"
    with log_file.open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=dict(environment), cwd=room.folder)  # noqa: S603
    address = f"http://{LOOPBACK}:{port}"
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(address + health):
            if process.poll() is not None or time.monotonic() > deadline:
                raise NotMeasuredError(
                    f"{command[2]} does not serve: {log_file.read_text().strip().rpartition(chr(10))[2]}"
                )
            time.sleep(0.05)
        yield HttpServer(address, port, Tree.of(process.pid))
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=1).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
