"""The toxics: everything that can be set on a gate, with its parameters. Durations are in seconds."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

SERVICES = ("postgres", "redis", "sqs")
ACTIONS = ("send", "receive", "delete", "visibility", "other")
"""What an SQS request is about. `other`: GetQueueUrl, GetQueueAttributes and the like."""

StaleHandles = Literal["aws", "moto", "elasticmq"]


# --- of every TCP connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Every chunk arrives `delay` ± `jitter` late, in order."""

    delay: float = 0.1
    jitter: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Bytes are held back, and go on when it is healed: none are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drip:
    """`size` bytes at a time, `interval` apart."""

    size: int = 8
    interval: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpen:
    """Connections are accepted and read, nothing is forwarded or answered, not even a close. What was thrown
    away is missing from the stream, so healing it resets the connections that it touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Connections are closed, new ones refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Connections are reset (RST), new ones right after they were accepted."""


# --- of requests


@dataclass(slots=True, kw_only=True)
class OnRequests:
    """Hits the next `count` requests that it is meant for, each with `probability`. Gates that it was set on together
    share the count."""

    probability: float = 1.0
    count: int | None = None
    """None: until it is healed."""

    def strikes(self, chance: Random) -> bool:
        if self.count == 0 or chance.random() >= self.probability:
            return False
        if self.count is not None:
            self.count -= 1
        return True


@dataclass(slots=True, kw_only=True)
class StatementAnswerLost(OnRequests):
    """A statement that writes is executed and committed; its answer is swallowed and the connection cut."""


@dataclass(slots=True, kw_only=True)
class CommandAnswerLost(OnRequests):
    """An EVAL, EVALSHA or SET is executed; its answer is swallowed and the connection cut."""


@dataclass(slots=True, kw_only=True)
class OnCalls(OnRequests):
    """A fault of SQS calls."""

    actions: Sequence[str] = ACTIONS

    def __post_init__(self) -> None:
        if not set(self.actions) <= set(ACTIONS):
            raise ValueError(f"actions are of {ACTIONS}, not {list(self.actions)}")


@dataclass(slots=True, kw_only=True)
class CallAnswerLost(OnCalls):
    """SQS does it; the answer is swallowed and the connection cut."""

    actions: Sequence[str] = ("send", "receive", "delete", "visibility")


@dataclass(slots=True, kw_only=True)
class CallLost(OnCalls):
    """SQS never hears of it, and the connection is cut."""


@dataclass(slots=True, kw_only=True)
class CallFails(OnCalls):
    """Answered 500 and not done."""


@dataclass(slots=True, kw_only=True)
class CallThrottled(OnCalls):
    """Answered 400 and not done."""


@dataclass(slots=True, kw_only=True)
class EntriesFail(OnCalls):
    """Some entries of a batch (each with `share`, at least one) are answered Failed and not forwarded."""

    actions: Sequence[str] = ("send", "delete", "visibility")
    share: float = 0.5


@dataclass(slots=True, kw_only=True)
class Duplicate(OnCalls):
    """A receive brings messages that were delivered before, invisible or deleted as they may be. Never on FIFO queues."""

    actions: Sequence[str] = ("receive",)


@dataclass(slots=True, kw_only=True)
class Reorder(OnCalls):
    """A receive's messages are shuffled, and some (each with `share`) held back for a later receive. Never on FIFO
    queues."""

    actions: Sequence[str] = ("receive",)
    share: float = 0.5
    hold: float = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Handles:
    """How stale receipt handles are answered; one mode for the whole of SQS, `aws` unless set."""

    mode: StaleHandles = "aws"


Toxic = Latency | Stall | Drip | HalfOpen | Cut | Reset | OnRequests | Handles

_OF_TCP: dict[str, type[Toxic]] = {
    "latency": Latency,
    "stall": Stall,
    "drip": Drip,
    "half_open": HalfOpen,
    "cut": Cut,
    "reset": Reset,
}
_OF_SERVICE: dict[str, dict[str, type[Toxic]]] = {
    "postgres": {"answer_lost": StatementAnswerLost},
    "redis": {"answer_lost": CommandAnswerLost},
    "sqs": {
        "answer_lost": CallAnswerLost,
        "request_lost": CallLost,
        "error": CallFails,
        "throttle": CallThrottled,
        "partial_failure": EntriesFail,
        "duplicate": Duplicate,
        "reorder": Reorder,
        "stale_handles": Handles,
    },
}


def names(service: str) -> list[str]:
    return [*_OF_TCP, *_OF_SERVICE[service]]


def make(service: str, toxic: str, parameters: dict[str, Any]) -> Toxic:
    """Raises ValueError for a toxic or a parameter that there is not."""
    kind = (_OF_TCP | _OF_SERVICE[service]).get(toxic)
    if kind is None:
        raise ValueError(f"{service} has no toxic {toxic!r}, but {', '.join(names(service))}")
    try:
        return kind(**parameters)
    except TypeError as error:
        raise ValueError(f"{toxic}: {error}") from None
