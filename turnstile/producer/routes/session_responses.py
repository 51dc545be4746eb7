"""The responses about sessions. Like those about turns, they name no tenant and prove no claim."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field

from turnstile.producer.routes.turn_responses import SessionMessage, TurnWithInput
from turnstile.queries.session_lists import ListedSession


class SessionLinks(BaseModel):
    """The URLs that belong to a session."""

    self: str
    turns: str
    messages: str


class SessionSummary(BaseModel):
    """A session in a list, without what was said in it.

    `last_turn_at` is when its newest turn was submitted. `has_open_turns`: a turn of it waits, runs or is scheduled.
    """

    id: str
    created_at: datetime
    last_turn_at: datetime
    last_turn_id: UUID
    has_open_turns: bool
    halted_by: Annotated[
        UUID | None, Field(description="The FAILED turn that halts the session: no turn of the session starts.")
    ]
    links: SessionLinks


class SessionPage(BaseModel):
    """Sessions, newest turn first. `next_cursor` is null on the last page only. Any page may have few sessions, or none."""

    sessions: list[SessionSummary]
    next_cursor: str | None


class RunningReply(BaseModel):
    """What the running turn has said so far. A stream of its events that resumes after `last_event_id`
    repeats nothing of this, and leaves nothing out."""

    turn_id: UUID
    text: Annotated[
        str | None,
        Field(description="Null: not known, because Redis does not respond, say. `last_event_id` is then the start."),
    ]
    custom: Annotated[list[Any], Field(description="The other events that the handler emitted, in order.")]
    last_event_id: Annotated[str, Field(description="For `Last-Event-ID` of the turn's `events`. `-1`: the start.")]


Turns = list[TurnWithInput] | None


class SessionDetail(BaseModel):
    """A session as a page shows it, read at one moment: no turn is in two of the lists. What `include` does not name is null.

    `messages` are the last of the answered turns, oldest first; `next_cursor` leads to those before them, at `links.messages`.
    """

    id: str
    created_at: datetime
    halted_by: Annotated[
        UUID | None, Field(description="The FAILED turn that halts the session: no turn of the session starts.")
    ]
    messages: list[SessionMessage]
    next_cursor: str | None
    open: Annotated[
        Turns,
        Field(description="The open turns, in the order in which they will be answered; scheduled ones at the end."),
    ]
    more_open: Annotated[bool, Field(description="`open` has only the first of them. `links.turns` lists all.")]
    failed: Annotated[Turns, Field(description="The last turns that are FAILED, oldest first.")]
    canceled: Annotated[Turns, Field(description="The last turns that are CANCELED, oldest first.")]
    partial: Annotated[RunningReply | None, Field(description="Null if no turn runs.")]
    links: SessionLinks


def session_links(session_id: str) -> SessionLinks:
    path = f"/v1/sessions/{session_id}"
    return SessionLinks(self=path, turns=f"{path}/turns", messages=f"{path}/messages")


def session_summary(listed: ListedSession) -> SessionSummary:
    return SessionSummary(
        id=listed.session_id,
        created_at=listed.created_at,
        last_turn_at=listed.last_turn_at,
        last_turn_id=listed.last_turn_id,
        has_open_turns=listed.has_open_turns,
        halted_by=listed.halted_by,
        links=session_links(listed.session_id),
    )
