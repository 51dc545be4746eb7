"""One SQS queue as a model: visibility, receive counts, receipt handles, groups; and all that SQS does not promise.

Standard queues deliver at least once and in any order; `Anomalies` says how often what may happen does happen. What a
stale receipt handle does differs between AWS and its emulators, so it has three modes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

from turnstile.errors import MalformedMessageError
from turnstile.turn.wire_format import decode

DEDUPLICATION_SECONDS = 300.0


class StaleHandle(StrEnum):
    """What is answered to a receipt handle that a later receive has replaced."""

    SHRUG = "shrug"
    """Success without effect, as AWS does for standard queues."""
    REFUSE = "refuse"
    """An error, as AWS does for FIFO queues, and ElasticMQ."""
    HONOUR = "honour"
    """It works, as in moto."""


@dataclass(slots=True)
class Anomalies:
    """Shares, from 0 to 1, of what SQS permits itself."""

    twice: float = 0.0
    """A sent message is there twice."""
    again: float = 0.0
    """A received message is delivered once more."""
    undeleted: float = 0.0
    """A delete is acknowledged and has no effect."""
    returns: float = 0.0
    """A deleted message comes back, up to a minute later."""
    vanishes: float = 0.0
    """A sent message is never delivered."""
    refuses: float = 0.0
    """An entry of a batch fails for a reason of SQS's own."""
    throttles: float = 0.0
    """A call is refused whole."""
    disorder: bool = False


@dataclass(slots=True, eq=False)
class Stored:
    id: str
    body: str
    attributes: dict[str, dict[str, str]]
    group: str | None
    visible_at: float
    receive_count: int = 0
    handle: str | None = None
    """The newest one."""
    gone: bool = False
    turn_id: str | None = None
    session: str | None = None


@dataclass(slots=True)
class QueueModel:
    """One queue. `now` gives seconds."""

    name: str
    fifo: bool
    now: Callable[[], float]
    chance: Random
    anomalies: Anomalies = field(default_factory=Anomalies)
    stale: StaleHandle = StaleHandle.SHRUG
    messages: list[Stored] = field(default_factory=list)
    handles: dict[str, Stored] = field(default_factory=dict)
    ids: int = 0
    sent_ids: dict[str, tuple[float, Stored]] = field(default_factory=dict)
    """FIFO: deduplication id -> until when, and what it stands for."""

    def send(self, body: str, attributes: dict[str, dict[str, str]], group: str | None, once: str | None) -> Stored:
        """Takes a message; of a FIFO queue only one per deduplication id and five minutes."""
        if self.fifo and once is not None:
            known = self.sent_ids.get(once)
            if known is not None and known[0] > self.now():
                return known[1]
        self.ids += 1
        stored = Stored(f"{self.name}/{self.ids}", body, attributes, group, self.now())
        self._read(stored)
        if self.fifo and once is not None:
            self.sent_ids[once] = (self.now() + DEDUPLICATION_SECONDS, stored)
        if not self._happens(self.anomalies.vanishes):
            self.messages.append(stored)
        if not self.fifo and self._happens(self.anomalies.twice):
            self.messages.append(self._copy(stored, self.now()))
        return stored

    def receive(self, most: int, visibility_seconds: float) -> list[tuple[Stored, str]]:
        """Up to `most` visible messages, each with a fresh receipt handle."""
        now = self.now()
        received = []
        for stored in self._order(self._visible(now))[:most]:
            stored.receive_count += 1
            handle = stored.handle = f"{stored.id}#{stored.receive_count}"
            self.handles[handle] = stored
            if self.fifo or not self._happens(self.anomalies.again):
                stored.visible_at = now + visibility_seconds
            received.append((stored, handle))
        return received

    def delete(self, handle: str) -> tuple[Stored | None, bool, bool]:
        """Deletes by receipt handle: the message, whether it is gone by this, and whether SQS says so."""
        stored, usable = self._find(handle)
        if stored is None or not usable:
            return stored, False, self.stale is not StaleHandle.REFUSE
        if self._happens(self.anomalies.undeleted):
            return stored, False, True
        self._remove(stored)
        if not self.fifo and self._happens(self.anomalies.returns):
            self.messages.append(self._copy(stored, self.now() + 60.0 * self.chance.random()))
        return stored, True, True

    def change_visibility(self, handle: str, seconds: float) -> tuple[Stored | None, bool, bool]:
        """Sets for how long a received message stays invisible; answers like `delete`."""
        stored, usable = self._find(handle)
        if stored is None or not usable or stored.visible_at <= self.now():
            return stored, False, self.stale is not StaleHandle.REFUSE
        stored.visible_at = self.now() + seconds
        return stored, True, True

    def purge(self) -> None:
        for stored in self.messages:
            stored.gone = True
        self.messages.clear()

    def next_visible_at(self) -> float | None:
        """When an invisible message will be visible, if there is one."""
        now = self.now()
        return min((stored.visible_at for stored in self.messages if stored.visible_at > now), default=None)

    def _visible(self, now: float) -> list[Stored]:
        if not self.fifo:
            return [stored for stored in self.messages if stored.visible_at <= now]
        # A group in flight is closed.
        closed = {stored.group for stored in self.messages if stored.visible_at > now}
        return [stored for stored in self.messages if stored.visible_at <= now and stored.group not in closed]

    def _order(self, visible: list[Stored]) -> list[Stored]:
        if self.anomalies.disorder and not self.fifo and len(visible) > 1:
            self.chance.shuffle(visible)
        return visible

    def _find(self, handle: str) -> tuple[Stored | None, bool]:
        stored = self.handles.get(handle)
        if stored is None or stored.gone:
            return stored, False
        if self.fifo and stored.visible_at <= self.now() and self.stale is not StaleHandle.HONOUR:
            # Its time is over: on a FIFO queue the handle has gone with it.
            return stored, False
        return stored, handle == stored.handle or self.stale is StaleHandle.HONOUR

    def _remove(self, stored: Stored) -> None:
        stored.gone = True
        self.messages.remove(stored)

    def _copy(self, stored: Stored, visible_at: float) -> Stored:
        copy = Stored(stored.id, stored.body, stored.attributes, stored.group, visible_at)
        copy.turn_id, copy.session = stored.turn_id, stored.session
        # Handles are told apart by their counts.
        copy.receive_count = stored.receive_count + 1000
        return copy

    def _happens(self, share: float) -> bool:
        return share > 0.0 and self.chance.random() < share

    def _read(self, stored: Stored) -> None:
        try:
            wake_up = decode(stored.body)
        except MalformedMessageError:
            return
        stored.turn_id, stored.session = str(wake_up.turn_id), wake_up.session_id

    def describe(self, stored: Stored, handle: str) -> dict[str, Any]:
        return {
            "MessageId": stored.id,
            "Body": stored.body,
            "ReceiptHandle": handle,
            "Attributes": {"ApproximateReceiveCount": str(stored.receive_count % 1000)},
            "MessageAttributes": stored.attributes,
        }
