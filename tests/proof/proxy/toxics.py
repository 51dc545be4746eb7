"""The toxics: everything that can be set on a gate, with its parameters. Durations are in seconds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Literal

SERVICES = ("postgres", "redis", "sqs")
ACTIONS = ("send", "receive", "delete", "visibility", "other")
"""What an SQS request is about. `other`: GetQueueUrl, GetQueueAttributes and the like."""

StaleHandles = Literal["aws", "moto", "elasticmq"]


@dataclass(frozen=True, slots=True)
class Plain:
    """A toxic without parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    delay: float = 0.1
    jitter: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drip:
    size: int = 8
    interval: float = 0.05


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
class OnCalls(OnRequests):
    actions: Sequence[str] = ACTIONS

    def __post_init__(self) -> None:
        if not set(self.actions) <= set(ACTIONS):
            raise ValueError(f"actions are of {ACTIONS}, not {list(self.actions)}")


@dataclass(slots=True, kw_only=True)
class OnEntries(OnCalls):
    """A fault of some entries of a call, each with `share`."""

    share: float = 0.5
    hold: float = 0.3
    """How long a message that is held back stays so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handles:
    mode: StaleHandles = "aws"


Toxic = Plain | Latency | Drip | OnRequests | Handles

OF_TCP: dict[str, Callable[..., Toxic]] = {
    # Every chunk arrives `delay` ± `jitter` late, in order.
    "latency": Latency,
    # Bytes are held back, and go on when it is healed: none are lost.
    "stall": Plain,
    # `size` bytes at a time, `interval` apart.
    "drip": Drip,
    # Connections are accepted and read, nothing is forwarded or answered, not even a close. What was thrown away is missing
    # from the stream, so healing it resets the connections that it touched.
    "half_open": Plain,
    # Connections are closed, new ones refused.
    "cut": Plain,
    # Connections are reset (RST), new ones right after they were accepted.
    "reset": Plain,
}
OF_SERVICE: dict[str, dict[str, Callable[..., Toxic]]] = {
    # A statement that writes is executed and committed; its answer is swallowed and the connection cut.
    "postgres": {"answer_lost": OnRequests},
    # An EVAL, EVALSHA or SET is executed; its answer is swallowed and the connection cut.
    "redis": {"answer_lost": OnRequests},
    "sqs": {
        # SQS does it; the answer is swallowed and the connection cut.
        "answer_lost": partial(OnCalls, actions=("send", "receive", "delete", "visibility")),
        # SQS never hears of it, and the connection is cut.
        "request_lost": OnCalls,
        # Answered 500 and not done.
        "error": OnCalls,
        # Answered 400 and not done.
        "throttle": OnCalls,
        # Some entries of a batch, at least one, are answered Failed and not forwarded.
        "partial_failure": partial(OnEntries, actions=("send", "delete", "visibility")),
        # A receive brings messages that were delivered before, invisible or deleted as they may be. Never on FIFO queues.
        "duplicate": partial(OnCalls, actions=("receive",)),
        # A receive's messages are shuffled, and some held back for a later receive. Never on FIFO queues.
        "reorder": partial(OnEntries, actions=("receive",)),
        # How stale receipt handles are answered; one mode for the whole of SQS, `aws` unless set.
        "stale_handles": Handles,
    },
}


def make(service: str, name: str, parameters: dict[str, Any]) -> Toxic:
    """Raises KeyError or TypeError for a toxic or a parameter that there is not."""
    return (OF_TCP | OF_SERVICE[service])[name](**parameters)
