"""The connections of simulated processes to services: each call takes time, may get lost, and may be done although its
response never comes. What was sent arrives also after its sender's death.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.proof.simulation.clock import Strand, VirtualLoop

Deliver = Callable[[Any], None]
"""Takes the result, or the exception."""


class BrokenWireError(Exception):
    """The service could not be reached, or the connection broke before its response came."""


class SilentWireError(BrokenWireError):
    """No response came in time."""


@dataclass(slots=True)
class Service:
    """Postgres, Redis or SQS, as something that can be away."""

    name: str
    down: int = 0
    """How many outages there are at present."""
    answering: bool = True
    """While it carries out a call: whether the caller gets the response. For the evidence only."""


@dataclass(slots=True)
class Weather:
    """How a wire is at present."""

    cut: bool = False
    hangs: bool = False
    """A cut wire answers nothing, instead of refusing at once."""
    breaks: float = 0.0
    """Share of calls that fail before they are carried out."""
    loses: float = 0.0
    """Share of responses that get lost."""
    slow_seconds: float = 0.0
    """Mean of an extra delay, each way."""


CALM = Weather()


class Wire:
    """One process's way to one service."""

    def __init__(self, loop: VirtualLoop, chance: Random, service: Service, patience_seconds: float) -> None:
        self._loop = loop
        self._chance = chance
        self._patience = patience_seconds
        self.service = service
        self.weather = CALM

    async def ask(self, execute: Callable[[], Any], patience_seconds: float | None = None) -> Any:
        """Has `execute` carried out at the service. Raises BrokenWireError, or what `execute` raises."""
        future = self._loop.create_future()

        def deliver(outcome: Any) -> None:
            if future.done():
                return
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        self.send(self._loop.current, execute, deliver, patience_seconds or self._patience)
        return await future

    def send(self, strand: Strand, execute: Callable[[], Any], deliver: Deliver, patience: float) -> None:
        if strand.dead:
            return
        loop, weather, chance = self._loop, self.weather, self._chance
        there = 0.0005 + 0.003 * chance.random()
        back = 0.0005 + 0.003 * chance.random()
        lost = False
        if weather is not CALM:
            if weather.cut or chance.random() < weather.breaks:
                self._fail(strand, deliver, patience if weather.hangs else there)
                return
            if weather.slow_seconds:
                there += chance.expovariate(1 / weather.slow_seconds)
                back += chance.expovariate(1 / weather.slow_seconds)
            lost = chance.random() < weather.loses
        late = there + back > patience
        if late:
            self._fail(strand, deliver, patience, silent=True)
        loop.call_in(loop.world, loop.now + there, self._carry_out, strand, execute, deliver, back, lost, late)

    def _carry_out(
        self, strand: Strand, execute: Callable[[], Any], deliver: Deliver, back: float, lost: bool, late: bool
    ) -> None:
        service = self.service
        if service.down:
            if not late:
                self._fail(strand, deliver, back)
            return
        answered = not lost and not late and not strand.dead
        service.answering = answered
        try:
            outcome = execute()
        except Exception as error:
            outcome = error
        if late:
            return
        if lost:
            self._fail(strand, deliver, back)
        elif hasattr(outcome, "answer"):
            outcome.answer = lambda result: self._deliver(strand, deliver, result, back)
        else:
            self._deliver(strand, deliver, outcome, back)

    def _deliver(self, strand: Strand, deliver: Deliver, outcome: Any, back: float) -> None:
        self._loop.call_in(strand, self._loop.now + back, deliver, outcome)

    def _fail(self, strand: Strand, deliver: Deliver, after: float, *, silent: bool = False) -> None:
        error = SilentWireError("no response in time") if silent else BrokenWireError("the connection broke")
        self._loop.call_in(strand, self._loop.now + after, deliver, error)
