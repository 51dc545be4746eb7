"""The AI SDK's UI message stream, version 1: what `useChat` of the npm package `ai`, version 7, reads. Pure.

A turn is one message, whose id is the turn's. An attempt is one step: `reset-step` takes back what an attempt before has said, or
what a client has of an earlier connection.
"""

from collections.abc import Iterator
from typing import Any, assert_never

from turnstile.streaming.event import EventKind
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
from turnstile.turn.status import TurnStatus
from turnstile.turn.stored_json import encode

HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}

_DONE = Chunk("[DONE]")

_TEXT, _REASONING = "text", "reasoning"
"""The parts that grow."""


class AiSdkEncoder:
    """The chunks of one connection about one turn."""

    def __init__(self, *, joins: bool) -> None:
        """`joins`: the client may have something of the turn already."""
        self._joins = joins
        self._open: str | None = None
        """The kind of the part that grows now."""
        self._parts = 0
        self._tools: set[str] = set()
        """The ids of the tool calls in the present step. The client fails at a result without its call."""
        self._kept = KeptEvents()
        self._has_parts = False

    def encode(self, event: SseEvent) -> list[Chunk]:
        """The chunks of the turn's next event."""
        return [chunk if isinstance(chunk, Chunk) else Chunk(encode(chunk)) for chunk in self._tell(event)]

    def _tell(self, event: SseEvent) -> Iterator[dict[str, Any] | Chunk]:
        match event.kind:
            case EventKind.METADATA:
                fields = read_fields(event.data)
                yield {"type": "start", "messageId": fields.get("turn_id"), "messageMetadata": _metadata(fields)}
                # Not both: without a step, a reset takes back all of the message.
                yield {"type": "reset-step" if self._joins else "start-step"}
            case EventKind.STATUS:
                fields = read_fields(event.data)
                if fields.get("status") == TurnStatus.RUNNING:
                    yield from self._take_back()
                    self._kept.begin_attempt()
                yield {"type": "message-metadata", "messageMetadata": _metadata(fields)}
            case EventKind.DELTA:
                yield from self._grow(_TEXT, text_of(read_fields(event.data)))
            case EventKind.RESET:
                yield from self._take_back()
                for kept in self._kept:
                    yield from self._tell_own(kept)
                yield from self._grow(_TEXT, text_of(read_fields(event.data)))
            case EventKind.CUSTOM:
                own = read(read_value(event.data))
                self._kept.add(own, len(event.data))
                yield from self._tell_own(own)
            case EventKind.END | EventKind.ERROR:
                yield from self._end(read_fields(event.data))
            case EventKind.UNREADABLE:
                pass
            case _:
                assert_never(event.kind)

    def _take_back(self) -> Iterator[dict[str, Any]]:
        self._open = None
        self._tools.clear()
        if self._has_parts:
            self._has_parts = False
            yield {"type": "reset-step"}

    def _grow(self, kind: str, text: str) -> Iterator[dict[str, Any]]:
        if not text:
            return
        if self._open != kind:
            yield from self._close()
            self._open, self._has_parts = kind, True
            self._parts += 1
            yield {"type": f"{kind}-start", "id": str(self._parts)}
        yield {"type": f"{kind}-delta", "id": str(self._parts), "delta": text}

    def _close(self) -> Iterator[dict[str, Any]]:
        if self._open is not None:
            yield {"type": f"{self._open}-end", "id": str(self._parts)}
            self._open = None

    def _tell_own(self, own: HandlerEvent) -> Iterator[dict[str, Any]]:
        if isinstance(own, ToolResult | ToolFailure) and own.id not in self._tools:
            own = without_call(own)
        match own:
            case Reasoning(text):
                yield from self._grow(_REASONING, text)
                return
            case ToolCall(call, name, given):
                yield from self._close()
                self._tools.add(call)
                yield {"type": "tool-input-available", "toolCallId": call, "toolName": name, "input": given, **_TOOL}
            case ToolResult(call, output):
                yield {"type": "tool-output-available", "toolCallId": call, "output": output, **_TOOL}
            case ToolFailure(call, error):
                yield {"type": "tool-output-error", "toolCallId": call, "errorText": error, **_TOOL}
            case NamedData(name, data, place):
                yield {"type": f"data-{name}", **({} if place is None else {"id": place}), "data": data}
            case OtherEvent(value):
                yield {"type": "data-custom", "data": value}
            case _:
                assert_never(own)
        self._has_parts = True

    def _end(self, fields: dict[str, Any]) -> Iterator[dict[str, Any] | Chunk]:
        yield from self._close()
        output = fields.get("output")
        if output is not None and not isinstance(output, str):
            yield {"type": "data-output", "id": "output", "data": output}
        yield {"type": "finish-step"}
        metadata = _metadata(fields)
        match fields.get("status"):
            case TurnStatus.SUCCEEDED:
                yield {"type": "finish", "finishReason": "stop", "messageMetadata": metadata}
            case TurnStatus.FAILED:
                yield {"type": "message-metadata", "messageMetadata": metadata}
                # A client stops at an error: it comes after all else.
                yield {"type": "error", "errorText": error_text(fields.get("error"))}
            case _:
                yield {"type": "message-metadata", "messageMetadata": metadata}
                yield {"type": "abort", "reason": str(fields.get("reason"))}
        yield _DONE


_TOOL = {"dynamic": True, "providerExecuted": True}
"""The page has no such tool of its own, and must not run it: the handler does."""


def _metadata(fields: dict[str, Any]) -> dict[str, Any]:
    """What the message's metadata say about the turn: all but its content. A client merges them."""
    return {"turnstile": {name: value for name, value in fields.items() if name not in ("output", "error")}}
