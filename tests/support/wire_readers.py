"""Clients of each wire, written from the rules of its documentation and from nothing of ours.

Each keeps what it has over a break, as a page does. `tests/streaming/wires/test_official_clients.py` compares them with the
official clients, where node is installed.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event."""

    data: str
    name: str | None
    id: str | None


def frames(received: bytes) -> Iterator[Frame]:
    """The events in what was received. Comments are left out, and so is an event that is not complete."""
    *whole, _ = received.decode().split("\n\n")
    for block in whole:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        if fields:
            yield Frame(fields["data"], fields.get("event"), fields.get("id"))


@dataclass
class OwnReader:
    """Turnstile's own events: docs/event-flow.md."""

    text: str = ""
    ends: list[str] = field(default_factory=list)

    def connect(self) -> None:
        """A new connection begins."""

    def take(self, frame: Frame) -> None:
        data = json.loads(frame.data)
        assert not self.ends, "something came after the end"
        match frame.name:
            case "status":
                self.text = "" if data["status"] == "RUNNING" else self.text
            case "delta":
                self.text += data["text"]
            case "reset":
                self.text = data["text"]
            case "end" | "error":
                self.ends.append(data["status"])

    @property
    def has_ended(self) -> bool:
        return bool(self.ends)


@dataclass
class AiSdkReader:
    """The AI SDK's UI message stream v1, as `processUIMessageStream` reads it."""

    parts: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    message_id: str = ""
    ends: list[str] = field(default_factory=list)
    done: int = 0
    _growing: dict[str, dict[str, Any]] = field(default_factory=dict)
    _chunks: int = 0

    def connect(self) -> None:
        self._growing.clear()
        self._chunks = 0
        # Without [DONE] it was not the end.
        self.ends.clear()

    def take(self, frame: Frame) -> None:
        assert not self.done, "something came after [DONE]"
        assert frame.name is None
        if frame.data == "[DONE]":
            assert self.ends, "no end before [DONE]"
            self.done += 1
            return
        chunk = json.loads(frame.data)
        assert not self.ends, "something came after the end"
        assert (self._chunks == 0) == (chunk["type"] == "start")
        self._chunks += 1
        self._apply(chunk)

    def _apply(self, chunk: dict[str, Any]) -> None:
        kind = chunk["type"]
        match kind:
            case "start":
                self.message_id = chunk["messageId"]
                self._merge(chunk)
            case "start-step":
                self.parts.append({"type": "step-start"})
            case "reset-step":
                del self.parts[self._step_start() :]
                self._growing.clear()
            case "finish-step":
                self._growing.clear()
            case "text-start" | "reasoning-start":
                part = {"type": kind.removesuffix("-start"), "text": ""}
                self._growing[kind.removesuffix("-start") + chunk["id"]] = part
                self.parts.append(part)
            case "text-delta" | "reasoning-delta":
                self._growing[kind.removesuffix("-delta") + chunk["id"]]["text"] += chunk["delta"]
            case "text-end" | "reasoning-end":
                del self._growing[kind.removesuffix("-end") + chunk["id"]]
            case "tool-input-available":
                known = [part for part in self.parts[self._step_start() :] if part.get("call") == chunk["toolCallId"]]
                part = {"type": "tool", "call": chunk["toolCallId"], "name": chunk["toolName"], "input": chunk["input"]}
                known[0].update(part) if known else self.parts.append(part)
            case "tool-output-available" | "tool-output-error":
                tools = {part["call"]: part for part in self.parts if part["type"] == "tool"}
                tools[chunk["toolCallId"]]["output"] = chunk.get("output", chunk.get("errorText"))
            case "message-metadata":
                self._merge(chunk)
            case "finish" | "abort" | "error":
                self.ends.append(kind)
                self._merge(chunk)
            case _:
                assert kind.startswith("data-")
                self._put_data(chunk)

    def _put_data(self, chunk: dict[str, Any]) -> None:
        named = chunk.get("id")
        same = [one for one in self.parts if one["type"] == chunk["type"] and named is not None and one["id"] == named]
        part = {"type": chunk["type"], "id": chunk.get("id"), "data": chunk["data"]}
        same[0].update(part) if same else self.parts.append(part)

    def _merge(self, chunk: dict[str, Any]) -> None:
        for name, value in chunk.get("messageMetadata", {}).items():
            self.metadata[name] = {**self.metadata.get(name, {}), **value}

    def _step_start(self) -> int:
        starts = [place for place, part in enumerate(self.parts) if part["type"] == "step-start"]
        return starts[-1] + 1 if starts else 0

    @property
    def text(self) -> str:
        return "".join(part["text"] for part in self.parts if part["type"] == "text")

    @property
    def has_ended(self) -> bool:
        return bool(self.done)


@dataclass
class AgUiReader:
    """AG-UI 1.0, as `verifyEvents` and `defaultApplyEvents` read it."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    customs: list[dict[str, Any]] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    result: Any = None
    turn_id: str = ""
    _open: set[str] = field(default_factory=set)
    _running: bool = False

    def connect(self) -> None:
        self._open.clear()
        self._running = False

    def take(self, frame: Frame) -> None:
        event = json.loads(frame.data)
        assert frame.name is None
        assert self._running == (event["type"] != "RUN_STARTED"), "outside of a run, or a run within a run"
        self._apply(event)

    def _apply(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "RUN_STARTED":
                self.turn_id = event["runId"]
                self._running = True
            case "MESSAGES_SNAPSHOT":
                new = {message["id"]: message for message in event["messages"]}
                kept = [
                    new.pop(one["id"], one) for one in self.messages if one["role"] == "reasoning" or one["id"] in new
                ]
                self.messages = [*kept, *new.values()]
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                self._begin(event["messageId"])
                if self._find(event["messageId"]) is None:
                    self.messages.append({"id": event["messageId"], "role": event["role"], "content": ""})
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                assert event["messageId"] in self._open
                assert event["delta"]
                message = self._find(event["messageId"])
                assert message is not None
                message["content"] = message.get("content", "") + event["delta"]
            case "TEXT_MESSAGE_END" | "REASONING_MESSAGE_END":
                self._open.remove(event["messageId"])
            case "TOOL_CALL_START":
                self._begin(event["toolCallId"])
                self._add_call(event)
            case "TOOL_CALL_ARGS":
                assert event["toolCallId"] in self._open
                self._call(event)["input"] += event["delta"]
            case "TOOL_CALL_END":
                self._open.remove(event["toolCallId"])
            case "TOOL_CALL_RESULT":
                self._call(event)["output"] = event["content"]
            case "CUSTOM":
                self.customs.append({"name": event["name"], "value": event["value"]})
            case "RUN_FINISHED" | "RUN_ERROR":
                assert not self._open
                self._running = False
                self.ends.append(event["type"])
                self.result = event.get("result")
            case kind:
                assert kind in ("REASONING_START", "REASONING_END")

    def _begin(self, what: str) -> None:
        assert what not in self._open
        self._open.add(what)

    def _find(self, message_id: str) -> dict[str, Any] | None:
        return next((message for message in self.messages if message["id"] == message_id), None)

    def _add_call(self, event: dict[str, Any]) -> None:
        owner = self._find(event["parentMessageId"])
        if owner is None:
            owner = {"id": event["parentMessageId"], "role": "assistant"}
            self.messages.append(owner)
        assert owner["role"] == "assistant"
        call = {"call": event["toolCallId"], "name": event["toolCallName"], "input": ""}
        owner.setdefault("calls", []).append(call)

    def _call(self, event: dict[str, Any]) -> dict[str, Any]:
        calls = {call["call"]: call for message in self.messages for call in message.get("calls", ())}
        return calls[event["toolCallId"]]

    @property
    def text(self) -> str:
        """Of the run."""
        return "".join(
            message.get("content", "")
            for message in self.messages
            if message["role"] == "assistant" and message["id"].split(":")[0] == self.turn_id
        )

    @property
    def has_ended(self) -> bool:
        return bool(self.ends)
