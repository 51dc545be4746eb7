"""The proxy as a whole: its gates, and the control port by which they are opened and their toxics set.

The control protocol: one JSON object a line, one JSON object a line in answer, `{"error": ...}` when it was refused.

    {"do": "open", "service": "postgres", "name": "worker-1"}                              -> {"port": 40001}
    {"do": "set", "service": "postgres", "name": "worker-1" | "all", "toxic": "latency",
     "parameters": {"delay": 0.2, "jitter": 0.1}}                                          -> {}
    {"do": "heal", "service": null, "name": null, "toxic": null}                           -> {}
    {"do": "counts"}                                                  -> {"postgres/worker-1": {"connections": 3, ...}}
"""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.proof.chaos.journal import Journal
from tests.proof.proxy import toxics
from tests.proof.proxy.gate import LOOPBACK, Gate
from tests.proof.proxy.postgres import PostgresConnection
from tests.proof.proxy.redis import RedisConnection
from tests.proof.proxy.sqs_connection import SqsConnection
from tests.proof.proxy.sqs_exchange import SqsState

Address = tuple[str, int]
ALL = "all"


class FaultProxy:
    """All gates. Everything random in it comes from `seed`; what passes to SQS is written to `wire.jsonl` in `folder`."""

    def __init__(self, upstreams: Mapping[str, Address], folder: Path, seed: int) -> None:
        self._upstreams = upstreams
        self._seed = seed
        self._sqs = SqsState()
        self._journal = Journal(folder)
        self._gates: dict[tuple[str, str], Gate] = {}
        self._control: asyncio.Server | None = None

    async def listen(self, port: int) -> int:
        """Opens the control port; 0 is any that is free. Returns which."""
        self._control = await asyncio.start_server(self._serve, LOOPBACK, port)
        found: int = self._control.sockets[0].getsockname()[1]
        return found

    def close(self) -> None:
        """Closes everything and writes out the wire log."""
        if self._control is not None:
            self._control.close()
        for gate in self._gates.values():
            gate.close()
        self._journal.close()

    async def open(self, service: str, name: str) -> int:
        """Opens a gate and returns its port; one that is open is that one."""
        if service not in self._upstreams:
            raise ValueError(f"no upstream for {service!r}")
        if name == ALL:
            raise ValueError(f"a gate can't be named {ALL!r}")
        gate = self._gates.get((service, name))
        if gate is None:
            chance = Random(f"{self._seed}/{service}/{name}")
            gate = Gate(service, name, self._upstreams[service], self._connect, chance)
            await gate.open()
            self._gates[service, name] = gate
        return gate.port

    async def set(self, service: str, name: str, toxic: str, parameters: dict[str, Any]) -> None:
        """Sets a toxic on a gate, or on all that are open."""
        made = toxics.make(service, toxic, parameters)
        if isinstance(made, toxics.Handles):
            self._sqs.receipts.mode = made.mode
            return
        for gate in self._find(service, name):
            await gate.set(toxic, made)

    async def heal(self, service: str | None, name: str | None, toxic: str | None) -> None:
        """Takes toxics away; what is None is any. How stale handles are answered stays as it is."""
        for gate in self._find(service, name):
            await gate.heal(toxic)

    def counts(self) -> dict[str, dict[str, int]]:
        """By `service/name`: connections so far and now, requests, and how often each toxic hit."""
        return {
            f"{service}/{name}": dict(gate.counts) | {"open": len(gate.connections)}
            for (service, name), gate in self._gates.items()
        }

    def _find(self, service: str | None, name: str | None) -> list[Gate]:
        found = [
            gate for gate in self._gates.values() if service in (None, gate.service) and name in (None, ALL, gate.name)
        ]
        if not found and name not in (None, ALL):
            raise ValueError(f"no gate {service}/{name}")
        return found

    def _connect(self, gate: Gate) -> asyncio.Protocol:
        match gate.service:
            case "postgres":
                return PostgresConnection(gate)
            case "redis":
                return RedisConnection(gate)
            case _:
                return SqsConnection(gate, self._sqs, self._journal)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Cancelled with the process: that is not an error to report.
        with suppress(asyncio.CancelledError):
            while line := await reader.readline():
                try:
                    answer = await self._obey(json.loads(line))
                except (ValueError, KeyError, TypeError) as error:
                    answer = {"error": f"{type(error).__name__}: {error}"}
                writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()

    async def _obey(self, asked: dict[str, Any]) -> dict[str, Any]:
        match asked["do"]:
            case "open":
                return {"port": await self.open(asked["service"], asked["name"])}
            case "set":
                await self.set(asked["service"], asked["name"], asked["toxic"], asked.get("parameters") or {})
            case "heal":
                await self.heal(asked.get("service"), asked.get("name"), asked.get("toxic"))
            case "counts":
                return self.counts()
            case other:
                raise ValueError(f"can't {other!r}")
        return {}
