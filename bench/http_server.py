"""An HTTP server as a process of its own: the product's API, or the plain route that it is compared with."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from bench.accounting import Tree
from bench.launch import launch
from bench.peers import PEERS_BIN
from bench.stage import Room
from turnstile.ops.dev.stack.ports import LOOPBACK, choose_free

START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class HttpServer:
    address: str
    port: int
    tree: Tree


@contextmanager
def serve_api(room: Room, environment: Mapping[str, str]) -> Iterator[HttpServer]:
    """`turnstile api` for as long as the block."""
    port = choose_free()
    command = [sys.executable, "-m", "turnstile.ops.cli", "api"]
    with _serve(room, command, {**environment, "TURNSTILE_API_PORT": str(port)}, port) as server:
        yield server


@contextmanager
def serve_plain_route(room: Room, environment: Mapping[str, str]) -> Iterator[HttpServer]:
    """`bench/programs/plain_route.py` for as long as the block."""
    port = choose_free()
    command = [
        *(str(PEERS_BIN / "python"), "-m", "uvicorn", "bench.programs.plain_route:app"),
        *("--host", LOOPBACK, "--port", str(port), "--log-level", "warning"),
    ]
    with _serve(room, command, environment, port) as server:
        yield server


@contextmanager
def _serve(room: Room, command: Sequence[str], environment: Mapping[str, str], port: int) -> Iterator[HttpServer]:
    address = f"http://{LOOPBACK}:{port}"
    with launch(command[2], command, room.folder / "http.log", room.folder, environment) as launched:
        launched.require("serving", lambda: _answers(f"{address}/healthz"), START_SECONDS)
        yield HttpServer(address, port, launched.tree)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=1).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
