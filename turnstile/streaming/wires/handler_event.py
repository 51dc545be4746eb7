"""What a handler's own event means: the convention for tool calls, reasoning and named data. Pure.

    {"type": "tool-call", "id": "c1", "name": "search", "input": {"q": "x"}}
    {"type": "tool-result", "id": "c1", "output": ["y"]}
    {"type": "tool-error", "id": "c1", "error": "no connection"}
    {"type": "reasoning", "text": "The user wants "}
    {"type": "data", "name": "sources", "data": [1, 2], "id": "s1"}

`docs/handlers.md` describes it. Any other JSON value is an event that the application has agreed with its handler.
"""

import re
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The handler calls a tool. A second one with the same id is not a call of its own."""

    id: str
    name: str
    input: Any


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the tool has returned."""

    id: str
    output: Any


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """The tool has failed."""

    id: str
    error: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of what the model thinks, which is not part of the reply."""

    text: str


@dataclass(frozen=True, slots=True)
class NamedData:
    """Data of a kind. With an `id` it replaces earlier data of this kind and id."""

    name: str
    data: Any
    id: str | None


@dataclass(frozen=True, slots=True)
class OtherEvent:
    """Any other JSON value."""

    value: Any


HandlerEvent = ToolCall | ToolResult | ToolFailure | Reasoning | NamedData | OtherEvent


def read(value: Any) -> HandlerEvent:
    """What an emitted value means. A value that does not keep to the convention is an OtherEvent, never an error."""
    match value:
        case {"type": "tool-call", "id": str(call), "name": str(name)} if call and _NAME.fullmatch(name):
            return ToolCall(call, name, value.get("input"))
        case {"type": "tool-result", "id": str(call)} if call:
            return ToolResult(call, value.get("output"))
        case {"type": "tool-error", "id": str(call), "error": str(error)} if call:
            return ToolFailure(call, error)
        case {"type": "reasoning", "text": str(text)}:
            return Reasoning(text)
        case {"type": "data", "name": str(name)} if _NAME.fullmatch(name):
            found = value.get("id")
            return NamedData(name, value.get("data"), found if isinstance(found, str) else None)
        case _:
            return OtherEvent(value)


def without_call(own: ToolResult | ToolFailure) -> OtherEvent:
    """How a reader is told what a tool has answered, if it does not know the call: that was before a gap."""
    match own:
        case ToolResult(call, output):
            return OtherEvent({"type": "tool-result", "id": call, "output": output})
        case ToolFailure(call, error):
            return OtherEvent({"type": "tool-error", "id": call, "error": error})
