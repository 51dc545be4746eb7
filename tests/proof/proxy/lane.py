"""One direction of one connection: where bytes are delayed, held back, dripped or thrown away."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.proof.proxy.toxics import Drip

if TYPE_CHECKING:
    from tests.proof.proxy.gate import Gate


class Lane:
    """Bytes go in by `feed` and come out by `write`, at once while no toxic is set on the gate."""

    def __init__(self, gate: "Gate", write: Callable[[bytes], None], finish: Callable[[], None]) -> None:
        self._gate = gate
        self._write = write
        self._finish = finish
        self._queue: deque[tuple[float, bytes]] = deque()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        self.broken = False
        """Bytes are missing in it: the connection can no longer be healed."""

    def feed(self, data: bytes) -> None:
        if not self._queue and not self._gate.disturbed:
            self._write(data)
        else:
            self._hold(data)

    def end(self) -> None:
        """No more bytes will come: calls `finish` when the last is out."""
        self._ended = True
        self.pump()

    def is_empty(self) -> bool:
        return not self._queue

    def close(self) -> None:
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _hold(self, data: bytes) -> None:
        if self._gate.find("half_open"):
            self._throw_away()
            return
        latency = self._gate.find("latency")
        now = asyncio.get_running_loop().time()
        late = 0.0
        if latency is not None:
            self._gate.count("latency")
            late = max(0.0, latency.delay + latency.jitter * self._gate.chance.uniform(-1, 1))
        self._due = max(self._due, now + late)
        self._queue.append((self._due, data))
        self.pump()

    def _throw_away(self) -> None:
        if not self.broken:
            self._gate.count("half_open")
        self.broken = True
        self.close()

    def pump(self) -> None:
        """Lets out what may go; called again whenever the gate's toxics change."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        if self._gate.find("half_open"):
            if self._queue or self._ended:
                self._throw_away()
            return
        while self._queue:
            if self._is_stalled():
                return
            due, data = self._queue[0]
            if self._gate.find("latency") and due > loop.time():
                self._timer = loop.call_at(due, self.pump)
                return
            drip = self._gate.find("drip")
            if drip is not None:
                self._let_drip(drip, due, data)
                self._timer = loop.call_later(drip.interval, self.pump)
                return
            self._queue.popleft()
            self._write(data)
        if self._ended and not self._is_stalled():
            self._ended = False
            self._finish()

    def _let_drip(self, drip: Drip, due: float, data: bytes) -> None:
        self._gate.count("drip")
        if len(data) > drip.size:
            self._queue[0] = (due, data[drip.size :])
        else:
            self._queue.popleft()
        self._write(data[: drip.size])

    def _is_stalled(self) -> bool:
        if self._gate.find("stall") is None:
            return False
        self._gate.count("stall")
        return True
