"""Which worker of `turnstile dev` takes turns: the decision, as a pure function of what happens.

A change starts a worker. Only when it has loaded the code does the one before it leave, so code with an error replaces nothing.
A worker that leaves takes no turn any more, and ends its turns on the old code, or hands them back.
"""

from dataclasses import dataclass, replace
from typing import assert_never

SHORT_LIFE_SECONDS = 5.0
"""A worker that ends by itself sooner than this would do so again: the next one starts when the code changes."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers, by the number of their start."""

    newest: int = 0
    loading: int | None = None
    """Imports the code. Takes no turn yet."""
    serving: int | None = None
    """Takes turns."""
    killed: int | None = None
    """The serving one, once somebody has asked to kill it."""
    fault: str | None = None
    """Why the newest code does not run: a block for people."""


@dataclass(frozen=True, slots=True)
class CodeChanged:
    """Also the first start."""


@dataclass(frozen=True, slots=True)
class Loaded:
    worker: int


@dataclass(frozen=True, slots=True)
class Unfit:
    worker: int
    fault: str


@dataclass(frozen=True, slots=True)
class KillAsked:
    pass


@dataclass(frozen=True, slots=True)
class Ended:
    worker: int
    code: int
    lived_seconds: float


Event = CodeChanged | Loaded | Unfit | KillAsked | Ended


@dataclass(frozen=True, slots=True)
class Start:
    worker: int


@dataclass(frozen=True, slots=True)
class Leave:
    """SIGTERM: the worker ends its turns, or hands them back."""

    worker: int


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL."""

    worker: int


Command = Start | Leave | Kill


def follow(workers: Workers, event: Event) -> tuple[Workers, list[Command]]:
    """The workers after the event, and what must be done."""
    match event:
        case CodeChanged():
            # One that loads older code has taken no turn: nothing is lost.
            overtaken: list[Command] = [] if workers.loading is None else [Kill(workers.loading)]
            after, started = _start(workers)
            return after, [*overtaken, *started]
        case Loaded(worker=worker) if worker == workers.loading:
            leaving: list[Command] = [] if workers.serving is None else [Leave(workers.serving)]
            return replace(workers, loading=None, serving=worker, killed=None, fault=None), leaving
        case Unfit(worker=worker, fault=fault) if worker == workers.loading:
            return replace(workers, loading=None, fault=fault), []
        case KillAsked() if workers.serving is not None:
            return replace(workers, killed=workers.serving), [Kill(workers.serving)]
        case Ended(worker=worker, code=code) if worker == workers.loading:
            fault = f"the code ended its worker with exit code {code} while it was loaded"
            return replace(workers, loading=None, fault=fault), []
        case Ended(worker=worker) if worker == workers.serving:
            return _follow_end(replace(workers, serving=None, killed=None), event, was_killed=worker == workers.killed)
        case Loaded() | Unfit() | KillAsked() | Ended():
            # Of a worker that has left, or was overtaken.
            return workers, []
        case _:
            assert_never(event)


def _follow_end(workers: Workers, ended: Ended, *, was_killed: bool) -> tuple[Workers, list[Command]]:
    if workers.loading is not None:
        return workers, []
    if was_killed or ended.lived_seconds >= SHORT_LIFE_SECONDS:
        return _start(workers)
    return replace(workers, fault=f"the worker ended with exit code {ended.code}; its lines are above"), []


def _start(workers: Workers) -> tuple[Workers, list[Command]]:
    worker = workers.newest + 1
    return replace(workers, newest=worker, loading=worker), [Start(worker)]
