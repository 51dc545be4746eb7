"""What the core asks of a shell, and what a shell answers. Pure.

The core of each call is a generator of *steps*: it yields a `Step`, and gets its `Outcome` sent. A shell performs the steps with
an HTTP client and a clock. So the async and the sync client have one core, and tests play it without a network.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the API."""

    method: str
    path: str
    params: Mapping[str, str | float] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """JSON text. As bytes, because a repeat under the same Idempotency-Key must be equal."""
    silence_seconds: float = 30.0
    """The connection counts as broken when the API has said nothing for so long."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Make the request, and read the whole response: Answer or Broken."""

    request: Request


@dataclass(frozen=True, slots=True)
class Open:
    """Make the request: Opened if events follow, otherwise Answer or Broken."""

    request: Request


@dataclass(frozen=True, slots=True)
class Listen:
    """Read one event of what was opened: Heard, Closed or Broken."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait: Done."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Tell:
    """Give this to the caller: Done."""

    value: Any


Step = Ask | Open | Listen | Pause | Tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response. `took`, here and below, is how many seconds the step lasted."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    took: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Events follow."""

    took: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One event of the stream, whole."""

    kind: str
    data: str
    id: str
    """The last id that the stream has named; empty if none yet."""
    took: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The stream has ended without a fault."""

    took: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """There is no connection, or it broke."""

    reason: str
    sent: bool
    """Whether the request may have reached the API."""
    took: float = 0.0


@dataclass(frozen=True, slots=True)
class Done:
    """The step is done."""


Outcome = Answer | Opened | Heard | Closed | Broken | Done

Steps = Generator[Step, Outcome | None, T]
"""The core of a call: it returns the call's result. None starts it."""


def ask(request: Request) -> Steps[Answer | Broken]:
    return cast("Answer | Broken", (yield Ask(request)))


def open_stream(request: Request) -> Steps[Opened | Answer | Broken]:
    return cast("Opened | Answer | Broken", (yield Open(request)))


def listen() -> Steps[Heard | Closed | Broken]:
    return cast("Heard | Closed | Broken", (yield Listen()))
