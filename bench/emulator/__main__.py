"""`python -m bench.emulator --port 9324`: serves until it is killed. `GET /_counts` returns what was called."""

import argparse
import asyncio
import json
import time
from typing import Any, cast

from bench.emulator.actions import LongPoll, RefusedError, Sqs
from bench.emulator.queue import sweep_all

SWEEP_SECONDS = 0.1
HEAD_END = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """One kept-alive HTTP/1.1 connection. Requests are answered one after the other."""

    def __init__(self, sqs: Sqs) -> None:
        self._sqs = sqs
        self._received = b""
        self._answering = False
        self._continue_sent = False
        self._waiting: tuple[LongPoll, asyncio.TimerHandle] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _: Exception | None) -> None:
        # A message that the poll of a client that is gone still got would be lost for a whole visibility timeout.
        self._stop_waiting()

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._look()

    def _look(self) -> None:
        while not self._answering:
            end = self._received.find(HEAD_END)
            if end < 0:
                return
            line, *lines = self._received[:end].decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
            body_begin = end + len(HEAD_END)
            body_end = body_begin + int(headers.get("content-length", 0))
            if len(self._received) < body_end:
                if "expect" in headers and not self._continue_sent:
                    self._continue_sent = True
                    self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            body, self._received = self._received[body_begin:body_end], self._received[body_end:]
            self._answering, self._continue_sent = True, False
            self._serve(line, headers.get("x-amz-target", ""), body)

    def _serve(self, line: str, target: str, body: bytes) -> None:
        if line.startswith("GET /_counts "):
            self._answer(json.dumps(counts(self._sqs)).encode())
            return
        try:
            answer = self._sqs.act(target.rpartition(".")[2], json.loads(body or b"{}"), self._answer_poll)
        except RefusedError as error:
            said = json.dumps({"__type": error.code, "message": str(error)}).encode()
            self._answer(said, "400 Bad Request", error.query_code)
            return
        if isinstance(answer, LongPoll):
            timer = asyncio.get_running_loop().call_later(answer.seconds, self._answer_poll, b"{}")
            self._waiting = (answer, timer)
        else:
            self._answer(answer)

    def _answer_poll(self, body: bytes) -> None:
        self._stop_waiting()
        self._answer(body)
        if self._received:
            self._look()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            poll, timer = self._waiting
            self._waiting = None
            timer.cancel()
            poll.queue.forget(poll.poll)

    def _answer(self, body: bytes, status: str = "200 OK", query_code: str = "") -> None:
        code = f"x-amzn-query-error: {query_code}\r\n" if query_code else ""
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: application/x-amz-json-1.0\r\nx-amzn-RequestId: 0\r\n{code}"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._transport.write(head.encode() + body)
        self._answering = False


def counts(sqs: Sqs) -> dict[str, Any]:
    """What was called and moved so far, by the queue's name."""
    return {
        name: {
            "calls": dict(queue.calls),
            "messages": dict(queue.messages),
            "first_receive_at": queue.first_receive_at,
            "left": sum(queue.depth.values()),
        }
        for name, queue in sqs.queues.items()
    }


async def serve(port: int) -> None:
    sqs = Sqs(f"http://127.0.0.1:{port}", time.time)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(sqs), "127.0.0.1", port, backlog=512)
    async with server:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            sweep_all(sqs.queues.values(), time.time())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
