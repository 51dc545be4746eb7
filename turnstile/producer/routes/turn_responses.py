"""Response models for turns and messages, and their conversion from rows. Pure.

A response never contains the tenant, the worker, anything that proves a claim (fence, claim id, lease), or the text of an error
that nobody wrote for clients.
"""

import math
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from turnstile.sealing.contents import Unopened
from turnstile.statements.submit import Accepted
from turnstile.turn.conversation import Message, join_inputs
from turnstile.turn.error_classes import text_for_clients
from turnstile.turn.identifiers import is_reserved_session
from turnstile.turn.status import TurnStatus
from turnstile.turn.turn_record import TurnRecord

MAX_POLL_SECONDS = 60


class TurnLinks(BaseModel):
    """The URLs that belong to a turn."""

    self: str
    events: str
    cancel: str
    session_turns: str
    session_messages: str


class SubmittedTurn(BaseModel):
    """A turn as it was accepted. A repeat of the request gets the same response, whatever has happened to the turn since.

    `merged`: the input was added to this turn, which was still waiting. The other fields are those of its first submit.
    """

    id: UUID
    session_id: str
    queue: str
    status: Literal["PENDING"] = "PENDING"
    created_at: datetime
    execute_at: datetime | None
    expires_at: datetime
    merged: bool
    links: TurnLinks


class TurnError(BaseModel):
    """Why a turn, or its last attempt, failed: a class for programs, a message for people.

    `message` is what the handler said with `Reject` or `Retry`, or Turnstile itself. It is null for any other error, whose text
    only operators see.
    """

    class_: Annotated[str, Field(alias="class")]
    message: str | None


class TurnSummary(BaseModel):
    """A turn in a list, without its input and its reply."""

    id: UUID
    session_id: str
    seq: int | None
    queue: str
    status: TurnStatus
    attempt: int
    failures: int
    crashes: int
    max_attempts: int | None
    generation: int
    execute_at: datetime | None
    expires_at: datetime
    timeout_seconds: float | None
    cancel_requested_at: datetime | None
    cancel_reason: str | None
    error: TurnError | None
    dead_lettered_at: datetime | None
    trace_id: str
    span_id: str
    parent_span_id: str | None
    kind: Literal["turn", "compensation"]
    parent_turn_id: UUID | None
    joining: list[UUID] | None
    metadata: dict[str, Any]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    halted_by: Annotated[
        UUID | None,
        Field(description="The FAILED turn, perhaps this one, that halts the session: no turn of the session starts."),
    ]
    links: TurnLinks


class WebhookState(BaseModel):
    """The state of the completion webhook. Both times null: it was given up, for the reason in `error`."""

    tries: int
    delivered_at: datetime | None
    next_try_at: datetime | None
    error: str | None


class TurnWithInput(TurnSummary):
    """A turn with its input."""

    input: Annotated[
        Any,
        Field(
            description="The user's input. Merged strings are joined by a line break; other merged inputs are a list."
        ),
    ]


class TurnDetail(TurnWithInput):
    """A turn with its input and its reply. `output` is null unless the turn has SUCCEEDED; `webhook` is null until the turn has
    ended, and if it has none.
    """

    output: Any
    webhook: WebhookState | None


class TurnPage(BaseModel):
    """Turns, newest first. `next_cursor` is null on the last page only. Any page may have few turns, or none."""

    turns: list[TurnSummary]
    next_cursor: str | None


class CancelAnswer(BaseModel):
    """The result of a cancel. `cancel_requested` false: the turn had ended before, and nothing was changed.

    `status` null: there is no such turn yet. A turn that is submitted with this id will be CANCELED at once.
    """

    id: UUID
    status: TurnStatus | None
    cancel_requested: bool


class SessionCancelAnswer(BaseModel):
    """How many turns were CANCELED at once (`canceled`), and how many run and were asked to stop (`stopping`)."""

    session_id: str
    canceled: int
    stopping: int


class ErasureAnswer(BaseModel):
    """The erasure of a session that is under way. Once nothing is left of the session, a repeated DELETE is answered 404."""

    session_id: str
    erasing: Literal[True] = True


class SessionMessage(BaseModel):
    """One message of a session."""

    turn_id: UUID
    seq: int
    role: Literal["user", "assistant"]
    content: Any
    created_at: datetime


class MessagePage(BaseModel):
    """The last messages of a session's answered turns, oldest first. `next_cursor` leads to the messages before them."""

    messages: list[SessionMessage]
    next_cursor: str | None


def links(turn_id: UUID, session_id: str) -> TurnLinks:
    return TurnLinks(
        self=f"/v1/turns/{turn_id}",
        events=f"/v1/turns/{turn_id}/events",
        cancel=f"/v1/turns/{turn_id}/cancel",
        session_turns=f"/v1/sessions/{session_id}/turns",
        session_messages=f"/v1/sessions/{session_id}/messages",
    )


def submitted(accepted: Accepted) -> SubmittedTurn:
    return SubmittedTurn(
        id=accepted.turn_id,
        session_id=accepted.session_id,
        queue=accepted.queue,
        created_at=accepted.created_at,
        execute_at=accepted.execute_at,
        expires_at=accepted.expires_at,
        merged=accepted.merged,
        links=links(accepted.turn_id, accepted.session_id),
    )


def summary(record: TurnRecord) -> TurnSummary:
    return TurnSummary.model_validate(_fields(record))


def with_input(record: TurnRecord) -> TurnWithInput:
    """A row with its input. Raises ContentsUnreadableError."""
    return TurnWithInput.model_validate({**_fields(record), "input": _input(record)})


def detail(record: TurnRecord) -> TurnDetail:
    """A row with its input, its reply and its webhook. Raises ContentsUnreadableError."""
    said = {"input": _input(record), "output": _opened(record.output), "webhook": record.webhook}
    return TurnDetail.model_validate({**_fields(record), **said})


def _opened(content: Any) -> Any:
    """The content. Raises ContentsUnreadableError."""
    if isinstance(content, Unopened):
        raise content.error
    return content


def session_message(message: Message, session_id: str) -> SessionMessage:
    """A message of the history of a session."""
    if message.role == "user":
        message = replace(message, content=without_secrets(message.content, session_id))
    return SessionMessage.model_validate(message, from_attributes=True)


def poll_after_seconds(record: TurnRecord, now: datetime) -> int | None:
    """After how many whole seconds to poll again; None once the turn has ended.

    Grows with the turn's age: after a minute, five more seconds do not matter. Before `execute_at` of a scheduled
    turn, it is the time until then. At most MAX_POLL_SECONDS.
    """
    if record.status.is_terminal:
        return None
    # While a turn waits for children, execute_at is its expiry; the children usually end earlier.
    due_at = None if record.joining else record.execute_at
    since = max(record.created_at, due_at or record.created_at)
    age = (now - since).total_seconds()
    return max(1, min(MAX_POLL_SECONDS, math.ceil(-age) if age < 0 else int(age / 10)))


def _fields(record: TurnRecord) -> dict[str, Any]:
    message = text_for_clients(record.error_class, record.error)
    error = None if record.error_class is None else {"class": record.error_class, "message": message}
    plain = {name: getattr(record, name) for name in TurnSummary.model_fields if name not in {"error", "links"}}
    return {**plain, "error": error, "links": links(record.id, record.session_id)}


def _input(record: TurnRecord) -> Any:
    return join_inputs([without_secrets(_opened(content), record.session_id) for content in record.inputs or ()])


def without_secrets(content: Any, session_id: str) -> Any:
    """An input as clients see it: that of a compensation quotes the error of the turn that failed."""
    match content:
        case {"error_class": error_class, "error": error} if is_reserved_session(session_id):
            return {**content, "error": text_for_clients(error_class, error)}
        case _:
            return content
