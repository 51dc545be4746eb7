"""Postgres: a statement that writes is committed, and its answer lost."""

import re
import struct
from collections.abc import Iterator

from tests.proof.proxy.connection import Connection
from tests.proof.proxy.gate import Gate

_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|MERGE|COMMIT|TRUNCATE|CREATE|DROP|ALTER)\b", re.IGNORECASE)
_ENDS_BLOCK = re.compile(r"\s*(COMMIT|END)\b", re.IGNORECASE)
_LOCKS_ONLY = re.compile(r"\bFOR\s+(NO\s+KEY\s+)?UPDATE\b", re.IGNORECASE)

_ASKS_FOR_ENCRYPTION = {80877103, 80877104}
_ASKS_TO_CANCEL = 80877102
_READY = b"Z\x00\x00\x00\x05"


def writes(sql: str) -> bool:
    """Whether a statement changes anything. In doubt it does: a fault that hits a read is only one that did no harm."""
    return _WRITES.search(_LOCKS_ONLY.sub("", sql)) is not None


class Requests:
    """A client's half of the protocol: type and body of each Parse, Bind, Execute, Query and Sync."""

    _OF_INTEREST = frozenset(b"PBEQS")

    def __init__(self) -> None:
        self._rest = b""
        self._starting = True
        self.opaque = False
        """Encrypted, or a cancel request: nothing more to be read here."""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        data = self._rest + data
        if self._starting:
            data = self._start(data)
        place = 0
        while not self._starting and not self.opaque and len(data) - place >= 5:
            length = 1 + int.from_bytes(data[place + 1 : place + 5], "big")
            if len(data) - place < length:
                break
            if data[place] in self._OF_INTEREST:
                yield data[place], data[place + 5 : place + length]
            place += length
        self._rest = data[place:]

    def _start(self, data: bytes) -> bytes:
        while len(data) >= 8:
            length, code = struct.unpack_from("!II", data)
            if len(data) < length:
                break
            data = data[length:]
            if code == _ASKS_TO_CANCEL:
                self.opaque = True
            if code not in _ASKS_FOR_ENCRYPTION:
                self._starting = False
                break
        return data


class PostgresConnection(Connection):
    """Follows the client's messages, which are few and small, so that it knows at any time which statement is what; the
    server's, which are the bulk, it looks at no closer than at the last bytes of a chunk."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self._requests = Requests()
        self._prepared: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}
        self._said = b""

    def from_server(self, data: bytes) -> None:
        self._said = data
        super().from_server(data)

    def from_client(self, data: bytes) -> None:
        # A Sync before the statement that was hit commits what came before, and not the statement.
        complete = False
        for kind, body in self._requests.feed(data):
            match kind:
                case 0x50:  # Parse
                    name, _, rest = body.partition(b"\0")
                    self._prepared[name] = rest.partition(b"\0")[0].decode(errors="replace")
                case 0x42:  # Bind
                    portal, name = body.split(b"\0", 2)[:2]
                    self._portals[portal] = self._prepared.get(name, "")
                case 0x45:  # Execute
                    self._executed(self._portals.get(body.partition(b"\0")[0], ""))
                case 0x51:  # Query
                    self.gate.count("requests")
                    self._executed(body[:-1].decode(errors="replace"))
                    complete = self._answer_lost
                case _:  # Sync
                    self.gate.count("requests")
                    complete = self._answer_lost
        self.up.feed(data)
        if complete:
            self.request_complete()

    def _executed(self, sql: str) -> None:
        if self.gate.find("answer_lost") is None or self._answer_lost or not writes(sql):
            return
        # What is written inside a transaction block is not committed by its own answer.
        if self._is_in_block() and not _ENDS_BLOCK.match(sql):
            return
        if self.gate.strike("answer_lost"):
            self.lose_answer()

    def _is_in_block(self) -> bool:
        return self._said[-6:-1] == _READY and self._said[-1:] == b"T"
