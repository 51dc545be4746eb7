"""An HTTP server as a process of its own: the product's API, the plain route that it is compared with, a collector of traces."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.accounting import Tree
from bench.launch import launch
from bench.peers import PEERS_BIN
from bench.stage import ROOT, Room
from turnstile.dev.stack.ports import LOOPBACK, choose_free
from turnstile.dev.stack.processes import plain_environment

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
    command = [sys.executable, "-m", "turnstile.ops.main", "api"]
    with _serve(room.folder, command, {**environment, "TURNSTILE_API_PORT": str(port)}, port) as server:
        yield server


@contextmanager
def serve_plain_route(room: Room, environment: Mapping[str, str]) -> Iterator[HttpServer]:
    """`bench/programs/plain_route.py` for as long as the block."""
    port = choose_free()
    command = [
        *(str(PEERS_BIN / "python"), "-m", "uvicorn", "bench.programs.plain_route:app"),
        *("--host", LOOPBACK, "--port", str(port), "--log-level", "warning"),
    ]
    with _serve(room.folder, command, environment, port) as server:
        yield server


@contextmanager
def serve_collector(folder: Path) -> Iterator[HttpServer]:
    """`bench/programs/collector.py` for as long as the block; its log goes to `folder`."""
    port = choose_free()
    command = [sys.executable, "-m", "bench.programs.collector"]
    environment = plain_environment(BENCH_PORT=str(port), PYTHONPATH=str(ROOT))
    with _serve(folder, command, environment, port) as server:
        yield server


@contextmanager
def _serve(folder: Path, command: Sequence[str], environment: Mapping[str, str], port: int) -> Iterator[HttpServer]:
    address = f"http://{LOOPBACK}:{port}"
    with launch(command[2], command, folder / "http.log", folder, environment) as launched:
        launched.require("serving", lambda: _answers(f"{address}/healthz"), START_SECONDS)
        yield HttpServer(address, port, launched.tree)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=1).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
