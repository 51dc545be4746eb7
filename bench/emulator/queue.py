"""A standard queue in memory; every operation takes constant time. Time is an argument (seconds, of any one clock)."""

import hashlib
import heapq
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

DEFAULT_VISIBILITY_SECONDS = 30.0


@dataclass(slots=True)
class Message:
    """One message. What never changes of its JSON is written down once, when it is sent."""

    head: str
    attributes: str
    sent_ms: int
    receives: int = 0


@dataclass(slots=True, eq=False)
class Poll:
    """A receive that waits. `answer` is called once, with the body of the answer."""

    most: int
    visibility_seconds: float
    answer: Callable[[bytes], None]


@dataclass(slots=True)
class Queue:
    """The messages of one queue, the polls that wait for more, and how often each action was called."""

    url: str
    attributes: dict[str, str] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    first_receive_at: float | None = None
    """By the wall clock. It shows how long a worker takes from its start to its first receive."""
    _visible: deque[Message] = field(default_factory=deque)
    _in_flight: dict[str, tuple[float, Message]] = field(default_factory=dict)
    _expiries: list[tuple[float, str]] = field(default_factory=list)
    _polls: deque[Poll] = field(default_factory=deque)
    _numbers: int = 0

    @property
    def visibility_seconds(self) -> float:
        """How long a received message stays invisible, unless the receive asks for something else."""
        return float(self.attributes.get("VisibilityTimeout", DEFAULT_VISIBILITY_SECONDS))

    @property
    def depth(self) -> dict[str, int]:
        counts = {"": len(self._visible), "NotVisible": len(self._in_flight), "Delayed": 0}
        return {f"ApproximateNumberOfMessages{name}": count for name, count in counts.items()}

    def send(self, body: str, attributes: dict[str, Any] | None, now: float) -> tuple[str, str]:
        """Takes a message; its id and the MD5 of its body."""
        self._numbers += 1
        message_id = f"00000000-0000-4000-8000-{self._numbers:012d}"
        digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
        head = f'"MessageId":"{message_id}","MD5OfBody":"{digest}","Body":{json.dumps(body)}'
        message = Message(head, json.dumps(attributes) if attributes else "", int(now * 1000))
        self.messages["sent"] += 1
        self._visible.append(message)
        return message_id, digest

    def receive(self, most: int, visibility_seconds: float, now: float) -> bytes:
        """The body of the answer to a receive: up to `most` messages, invisible from now on."""
        taken: list[str] = []
        while self._visible and len(taken) < most:
            message = self._visible.popleft()
            message.receives += 1
            self._numbers += 1
            handle = f"handle-{self._numbers}"
            until = now + visibility_seconds
            self._in_flight[handle] = (until, message)
            heapq.heappush(self._expiries, (until, handle))
            # All that a contender asks for: to pick what was asked for would cost more.
            said = f',"MessageAttributes":{message.attributes}' if message.attributes else ""
            taken.append(
                f'{{{message.head},"ReceiptHandle":"{handle}","Attributes":{{"SentTimestamp":"{message.sent_ms}",'
                f'"ApproximateReceiveCount":"{message.receives}"}}{said}}}'
            )
        self.messages["received"] += len(taken)
        return f'{{"Messages":[{",".join(taken)}]}}'.encode() if taken else b"{}"

    def has_visible(self) -> bool:
        return bool(self._visible)

    def wait(self, poll: Poll) -> None:
        self._polls.append(poll)

    def forget(self, poll: Poll) -> None:
        """Its client is gone, or has waited long enough."""
        if poll in self._polls:
            self._polls.remove(poll)

    def serve(self, now: float) -> None:
        """Gives what is visible to the polls that wait."""
        while self._polls and self._visible:
            poll = self._polls.popleft()
            poll.answer(self.receive(poll.most, poll.visibility_seconds, now))

    def delete(self, handle: str) -> None:
        """Deletes; of a handle that it does not know it says nothing, as SQS."""
        if self._in_flight.pop(handle, None) is not None:
            self.messages["deleted"] += 1

    def change_visibility(self, handle: str, seconds: float, now: float) -> bool:
        """Whether the message was in flight."""
        found = self._in_flight.get(handle)
        if found is None:
            return False
        self._in_flight[handle] = (now + seconds, found[1])
        heapq.heappush(self._expiries, (now + seconds, handle))
        return True

    def sweep(self, now: float) -> None:
        """Makes visible what was not deleted in time, and serves the polls."""
        while self._expiries and self._expiries[0][0] <= now:
            _, handle = heapq.heappop(self._expiries)
            # Deleted, or extended: then a later entry of the heap stands for it.
            if handle in self._in_flight and self._in_flight[handle][0] <= now:
                self._visible.append(self._in_flight.pop(handle)[1])
                self.messages["redelivered"] += 1
        self.serve(now)


def sweep_all(queues: Iterable[Queue], now: float) -> None:
    for queue in queues:
        queue.sweep(now)
