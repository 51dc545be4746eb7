"""A client's connection to SQS: HTTP requests, one after the other, each an `Exchange`."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from tests.proof.chaos.journal import Journal
from tests.proof.checker.evidence import WireCall
from tests.proof.proxy.connection import ClientSide, close
from tests.proof.proxy.gate import Gate
from tests.proof.proxy.http_messages import HttpMessage, HttpReader
from tests.proof.proxy.sqs_calls import read_call
from tests.proof.proxy.sqs_exchange import Exchange, SqsState, Step


class _ServerSide(asyncio.Protocol):
    def __init__(self, connection: "SqsConnection") -> None:
        self._connection = connection
        self._reader = HttpReader()

    def data_received(self, data: bytes) -> None:
        for response in self._reader.feed(data):
            self._connection.answered(response)

    def connection_lost(self, _: Exception | None) -> None:
        self._connection.server_lost()


class SqsConnection(ClientSide):
    """A request that is under way is seen to its end even if the client leaves: SQS does not notice that either, and
    what it did belongs into the wire log."""

    def __init__(self, gate: Gate, state: SqsState, journal: Journal) -> None:
        super().__init__(gate, self._from_client, self._client_ended)
        self._state = state
        self._journal = journal
        self._requests = HttpReader()
        self._server: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._forwarding: asyncio.Task[None] | None = None
        self._untold: Sequence[WireCall] = ()
        """What the answer says that is on its way to the client."""

    # --- the client's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client = cast("asyncio.Transport", transport)
        if not self.gate.admit(self):
            self.break_off(reset=True)

    def data_received(self, data: bytes) -> None:
        self.up.feed(data)

    def connection_lost(self, _: Exception | None) -> None:
        self._client = None
        self.down.close()
        self._note(answered=False)
        # Behind the bytes that are still held back: they arrive although the client has left.
        self.up.end()

    # --- an exchange

    def _from_client(self, data: bytes) -> None:
        try:
            for request in self._requests.feed(data):
                self._begin(request)
        except ValueError:
            self.gate.count("not_understood")
            self.break_off(reset=True)

    def _begin(self, request: HttpMessage) -> None:
        if self._exchange is not None:
            raise ValueError("a request before the last one's answer")
        self.gate.count("requests")
        exchange = Exchange(self._state, self.gate, read_call(request))
        step = exchange.begin()
        if step.forward is None:
            self._conclude(step)
        else:
            self._exchange = exchange
            self._forward(step.forward)

    def _forward(self, request: HttpMessage) -> None:
        if self._server is not None and not self._server.is_closing():
            self._server.write(request.encode())
        else:
            # The emulator closes connections that are idle for some seconds; the client shall not notice.
            self._forwarding = asyncio.get_running_loop().create_task(self._connect_and_forward(request))

    async def _connect_and_forward(self, request: HttpMessage) -> None:
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_connection(lambda: _ServerSide(self), *self.gate.upstream)
        except OSError:
            self.gate.count("upstream_away")
            self._give_up()
            return
        self._server = transport
        transport.write(request.encode())

    def answered(self, response: HttpMessage) -> None:
        if self._exchange is None:
            return
        exchange, self._exchange = self._exchange, None
        self._conclude(exchange.finish(response))

    def server_lost(self) -> None:
        self._server = None
        self._give_up()

    def _give_up(self) -> None:
        if self._exchange is None:
            return
        exchange, self._exchange = self._exchange, None
        self._conclude(exchange.abandon())

    def _conclude(self, step: Step) -> None:
        self._note(answered=False)
        self._untold = step.calls
        if step.reply is None or self._client is None:
            self.break_off(reset=True)
        else:
            self.down.feed(step.reply.encode())

    def _note(self, *, answered: bool) -> None:
        for call in self._untold:
            self._journal.write(replace(call, answered=answered))
        self._untold = ()

    # --- the gate's

    def break_off(self, *, reset: bool) -> None:
        self.up.close()
        self._note(answered=False)
        if self._client is not None and not self._client.is_closing():
            close(self._client, with_reset=reset)
        self._client_ended()

    # --- the lanes'

    def _client_ended(self) -> None:
        self.gate.connections.discard(self)
        if self._exchange is None and self._server is not None:
            self._server.close()

    def _to_client(self, data: bytes) -> None:
        super()._to_client(data)
        if self._client is not None and not self._client.is_closing() and self.down.is_empty():
            self._note(answered=True)
