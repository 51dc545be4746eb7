"""AG-UI, the Agent User Interaction Protocol 1.0: what `HttpAgent` of the npm package `@ag-ui/client` reads. Pure.

A session is a thread, a turn is a run. The protocol can take back nothing but the list of all messages. So a reset is a
`MESSAGES_SNAPSHOT` with the conversation up to this turn, after which the text begins again.
"""

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from turnstile.streaming.event import EventId, EventKind
from turnstile.streaming.wires.handler_event import (
    HandlerEvent,
    NamedData,
    OtherEvent,
    Reasoning,
    ToolCall,
    ToolFailure,
    ToolResult,
    read,
    without_call,
)
from turnstile.streaming.wires.kept_events import KeptEvents
from turnstile.streaming.wires.sse import Chunk, SseEvent, read_fields, read_value, text_of
from turnstile.streaming.wires.words import error_text
from turnstile.turn.conversation import Message
from turnstile.turn.status import TurnStatus
from turnstile.turn.stored_json import encode

STATUS_NAME = "turnstile.status"
"""The name of the CUSTOM event that says how the turn stands."""

CANCELED = "canceled"
"""The `code` of a RUN_ERROR that ends a canceled turn: the protocol has no other end for it."""


class AgUiEncoder:
    """The chunks of one connection about one turn."""

    def __init__(self, *, joins: bool, seen: EventId | None) -> None:
        """`joins`: the client may have something of the turn already. `seen`: the last event that it names."""
        self._joins = joins
        self._seen = seen
        self._turn_id = self._session_id = ""
        self._messages = 1
        """How many messages the reply has. A tool call ends a message, as in the history of a model."""
        self._said = self._called = False
        """Whether the present message has text, and tool calls."""
        self._open: str | None = None
        """The id of the message that grows now: the present one, or that of the reasoning."""
        self._reasons = False
        """Whether it is that of the reasoning."""
        self._tools: set[str] = set()
        self._kept = KeptEvents()
        self._has_messages = False
        self._conversation: list[dict[str, Any]] | None = None

    def needs_conversation(self, event: SseEvent) -> bool:
        """Whether `learn_conversation` must be called before this event is encoded."""
        return self._conversation is None and self._takes_back(event)

    def learn_conversation(self, messages: Sequence[Message]) -> None:
        """`messages`: those before the turn's reply, oldest first; the last is the turn's input."""
        self._conversation = [
            {
                "id": str(message.turn_id) if message.role == "assistant" else f"{message.turn_id}:{message.role}",
                "role": message.role,
                "content": _as_text(message.content),
            }
            for message in messages
        ]

    def encode(self, event: SseEvent) -> list[Chunk]:
        """The chunks of the turn's next event."""
        return [Chunk(encode(chunk)) for chunk in self._tell(event)]

    def _takes_back(self, event: SseEvent) -> bool:
        match event.kind:
            case EventKind.METADATA:
                return self._joins
            case EventKind.STATUS:
                return self._has_messages and read_fields(event.data).get("status") == TurnStatus.RUNNING
            case EventKind.RESET:
                return self._has_messages
            case _:
                return False

    def _tell(self, event: SseEvent) -> Iterator[dict[str, Any]]:
        fields = read_fields(event.data)
        match event.kind:
            case EventKind.METADATA:
                self._turn_id, self._session_id = str(fields.get("turn_id")), str(fields.get("session_id"))
                yield {"type": "RUN_STARTED", **self._run}
                if self._joins:
                    yield self._snapshot()
            case EventKind.STATUS:
                if fields.get("status") == TurnStatus.RUNNING:
                    yield from self._take_back()
                    self._kept.begin_attempt()
                yield {"type": "CUSTOM", "name": STATUS_NAME, "value": fields}
            case EventKind.DELTA:
                yield from self._say(text_of(fields))
            case EventKind.RESET:
                yield from self._take_back()
                for kept in self._kept:
                    yield from self._tell_own(kept, event.id)
                yield from self._say(text_of(fields))
            case EventKind.CUSTOM:
                own = read(read_value(event.data))
                if isinstance(own, ToolCall | ToolResult | ToolFailure):
                    self._kept.add(own, len(event.data))
                elif self._has_seen(event):
                    # A snapshot leaves these with the client.
                    return
                yield from self._tell_own(own, event.id)
            case EventKind.END | EventKind.ERROR:
                yield from self._close()
                yield self._end(fields)
            case EventKind.UNREADABLE:
                pass
            case _:
                assert_never(event.kind)

    @property
    def _run(self) -> dict[str, str]:
        return {"threadId": self._session_id, "runId": self._turn_id}

    @property
    def _message_id(self) -> str:
        return self._turn_id if self._messages == 1 else f"{self._turn_id}:{self._messages}"

    def _has_seen(self, event: SseEvent) -> bool:
        return self._seen is not None and event.id is not None and event.id <= self._seen

    def _snapshot(self) -> dict[str, Any]:
        return {"type": "MESSAGES_SNAPSHOT", "messages": self._conversation or []}

    def _take_back(self) -> Iterator[dict[str, Any]]:
        yield from self._close()
        if self._has_messages:
            self._has_messages = False
            self._begin_message(1)
            self._tools.clear()
            yield self._snapshot()

    def _begin_message(self, number: int) -> None:
        self._messages = number
        self._said = self._called = False

    def _say(self, text: str) -> Iterator[dict[str, Any]]:
        if not text:
            return
        if self._open is None or self._reasons:
            yield from self._close()
            if self._said or self._called:
                self._begin_message(self._messages + 1)
            self._open, self._said, self._has_messages = self._message_id, True, True
            yield {"type": "TEXT_MESSAGE_START", "messageId": self._open, "role": "assistant"}
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": self._open, "delta": text}

    def _reason(self, text: str, at: EventId | None) -> Iterator[dict[str, Any]]:
        if not text:
            return
        if not self._reasons:
            yield from self._close()
            if self._said or self._called:
                self._begin_message(self._messages + 1)
            # Not by its number: what an attempt before has thought stays with the client.
            self._open, self._reasons = f"{self._turn_id}:reasoning:{at}", True
            yield {"type": "REASONING_START", "messageId": self._open}
            yield {"type": "REASONING_MESSAGE_START", "messageId": self._open, "role": "reasoning"}
        yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": self._open, "delta": text}

    def _close(self) -> Iterator[dict[str, Any]]:
        if self._open is None:
            return
        if self._reasons:
            yield {"type": "REASONING_MESSAGE_END", "messageId": self._open}
            yield {"type": "REASONING_END", "messageId": self._open}
        else:
            yield {"type": "TEXT_MESSAGE_END", "messageId": self._open}
        self._open, self._reasons = None, False

    def _tell_own(self, own: HandlerEvent, at: EventId | None) -> Iterator[dict[str, Any]]:
        if isinstance(own, ToolResult | ToolFailure) and own.id not in self._tools:
            own = without_call(own)
        match own:
            case Reasoning(text):
                yield from self._reason(text, at)
            case ToolCall(call, name, given):
                if call not in self._tools:
                    yield from self._call(call, name, given)
            case ToolResult(call, output):
                yield self._result(call, _as_text(output))
            case ToolFailure(call, error):
                yield self._result(call, encode({"error": error}))
            case NamedData(name, data, place):
                value = data if place is None else {"id": place, "data": data}
                yield {"type": "CUSTOM", "name": name, "value": value}
            case OtherEvent(value):
                yield {"type": "CUSTOM", "name": "custom", "value": value}
            case _:
                assert_never(own)

    def _call(self, call: str, name: str, given: Any) -> Iterator[dict[str, Any]]:
        yield from self._close()
        self._tools.add(call)
        self._called = self._has_messages = True
        about = {"toolCallId": call}
        yield {"type": "TOOL_CALL_START", **about, "toolCallName": name, "parentMessageId": self._message_id}
        yield {"type": "TOOL_CALL_ARGS", **about, "delta": encode(given)}
        yield {"type": "TOOL_CALL_END", **about}

    def _result(self, call: str, content: str) -> dict[str, Any]:
        about = {"messageId": f"{call}:result", "toolCallId": call}
        return {"type": "TOOL_CALL_RESULT", **about, "content": content, "role": "tool"}

    def _end(self, fields: dict[str, Any]) -> dict[str, Any]:
        match fields.get("status"):
            case TurnStatus.SUCCEEDED:
                outcome = {"type": "success"}
                return {"type": "RUN_FINISHED", **self._run, "result": fields.get("output"), "outcome": outcome}
            case TurnStatus.FAILED:
                error = fields.get("error") or {}
                return {"type": "RUN_ERROR", "message": error_text(error), "code": str(error.get("class"))}
            case _:
                return {"type": "RUN_ERROR", "message": f"canceled ({fields.get('reason')})", "code": CANCELED}


def _as_text(content: Any) -> str:
    return content if isinstance(content, str) else encode(content)
