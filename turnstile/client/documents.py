"""The documents of the API, as its OpenAPI document describes them: JSON as it came, with types. Times are ISO 8601 texts."""

from datetime import datetime
from typing import Any, Literal, NotRequired, Required, TypedDict

Status = Literal["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED"]

ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELED"})
"""The statuses of a turn that has ended."""

Verb = Literal["read", "submit", "cancel"]

Part = Literal["open", "failed", "canceled", "partial"]
"""What a read of a session includes beside its messages."""


class TurnOptions(TypedDict, total=False):
    """What a submit may say besides its input. What is left out is the queue's to say."""

    queue: str
    metadata: dict[str, Any]
    """Kept with the turn: 4,096 bytes of JSON at most."""
    max_attempts: int
    timeout_seconds: float
    expires_in_seconds: float
    execute_at: datetime | str
    """The turn begins then at the earliest. With its zone."""
    priority_seconds: float
    turn_id: str
    webhook_url: str
    on_busy: Literal["enqueue", "reject", "interrupt", "merge"]


class BatchTurn(TurnOptions):
    """One turn of a batch."""

    session_id: Required[str]
    input: Required[Any]
    idempotency_key: NotRequired[str]


class TurnLinks(TypedDict):
    """Paths of the API."""

    self: str
    events: str
    cancel: str
    session_turns: str
    session_messages: str


class SubmittedTurn(TypedDict):
    """A turn as it was accepted."""

    id: str
    session_id: str
    queue: str
    status: Literal["PENDING"]
    created_at: str
    execute_at: str | None
    expires_at: str
    merged: bool
    """The input was added to this turn, which was still waiting."""
    links: TurnLinks


class Submitted(SubmittedTurn):
    """The same, and what the response says besides."""

    replayed: bool
    """An equal request under the same key had been made before, and this is its turn."""


TurnError = TypedDict("TurnError", {"class": str, "message": str | None})
"""Why a turn failed: a class for programs, a message for people, null if its text is only for operators."""


class TurnSummary(TypedDict):
    """A turn in a list, without its input and its reply."""

    id: str
    session_id: str
    seq: int | None
    queue: str
    status: Status
    attempt: int
    failures: int
    crashes: int
    max_attempts: int | None
    generation: int
    execute_at: str | None
    expires_at: str
    timeout_seconds: float | None
    cancel_requested_at: str | None
    cancel_reason: str | None
    error: TurnError | None
    dead_lettered_at: str | None
    trace_id: str
    span_id: str
    parent_span_id: str | None
    kind: Literal["turn", "compensation"]
    parent_turn_id: str | None
    joining: list[str] | None
    metadata: dict[str, Any]
    created_at: str
    started_at: str | None
    finished_at: str | None
    halted_by: str | None
    links: TurnLinks


class WebhookState(TypedDict):
    """The state of the completion webhook."""

    tries: int
    delivered_at: str | None
    next_try_at: str | None
    error: str | None


class TurnWithInput(TurnSummary):
    """A turn with its input, without its reply."""

    input: Any


class Turn(TurnWithInput):
    """A turn with its input and its reply. `output` is None unless the turn has SUCCEEDED."""

    output: Any
    webhook: WebhookState | None


class CancelAnswer(TypedDict):
    """The result of a cancel. `cancel_requested` false: the turn had ended before."""

    id: str
    status: Status | None
    cancel_requested: bool


class SessionCancelAnswer(TypedDict):
    """How many turns were CANCELED at once, and how many run and were asked to stop."""

    session_id: str
    canceled: int
    stopping: int


class SessionMessage(TypedDict):
    """One message of a session."""

    turn_id: str
    seq: int
    role: Literal["user", "assistant"]
    content: Any
    created_at: str


class SessionLinks(TypedDict):
    """Paths of the API."""

    self: str
    turns: str
    messages: str


class SessionSummary(TypedDict):
    """A session in a list, without what was said in it."""

    id: str
    created_at: str
    last_turn_at: str
    last_turn_id: str
    has_open_turns: bool
    halted_by: str | None
    links: SessionLinks


class RunningReply(TypedDict):
    """What the running turn has said so far. `client.follow(turn_id, after=last_event_id)` goes on from there."""

    turn_id: str
    text: str | None
    """None: not known now."""
    custom: list[Any]
    last_event_id: str


class SessionDetail(TypedDict):
    """A session as a page shows it, read at one moment. What was not asked for is None."""

    id: str
    created_at: str
    halted_by: str | None
    messages: list[SessionMessage]
    """The last ones, oldest first."""
    next_cursor: str | None
    open: list[TurnWithInput] | None
    more_open: bool
    failed: list[TurnWithInput] | None
    canceled: list[TurnWithInput] | None
    partial: RunningReply | None
    links: SessionLinks


class BrowserToken(TypedDict):
    """A token that a page shows in place of a key."""

    token: str
    session_id: str
    verbs: list[Verb]
    expires_at: str


class WebhookTurn(TypedDict):
    """The turn that a webhook is about. Read its reply with your key."""

    id: str
    tenant_id: str
    session_id: str
    status: Status
    error_class: str | None
    cancel_reason: str | None
    metadata: dict[str, Any]


class Webhook(TypedDict):
    """The body of a completion webhook."""

    type: Literal["turn.succeeded", "turn.failed", "turn.canceled"]
    timestamp: str
    data: WebhookTurn
