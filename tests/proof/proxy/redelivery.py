"""Deliveries that a standard queue may make and the emulator never does: again, and out of order."""

import copy
import uuid
from collections import defaultdict, deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.proof.proxy.receipts import Receipts

REMEMBERED = 200
"""So many deliveries of each queue may be made again."""

Entry = dict[str, Any]
"""A message as ReceiveMessage answers it."""


@dataclass(slots=True)
class _Queue:
    delivered: deque[Entry] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    held: list[tuple[float, Entry]] = field(default_factory=list)


class Redelivery:
    """What was delivered lately, and what is held back, by queue."""

    def __init__(self, receipts: Receipts) -> None:
        self._receipts = receipts
        self._queues: dict[str, _Queue] = defaultdict(_Queue)

    def remember(self, queue: str, entries: list[Entry]) -> None:
        self._queues[queue].delivered.extend(entries)

    def can_repeat(self, queue: str) -> bool:
        return bool(self._queues[queue].delivered)

    def repeat(self, queue: str, most: int, chance: Random) -> list[Entry]:
        """One to `most` deliveries made again, some with the last receipt handle and some with a new one."""
        delivered = self._queues[queue].delivered
        chosen = chance.sample(list(delivered), k=chance.randint(1, min(most, len(delivered))))
        # Delivered twice already, it may be among the remembered twice.
        by_id = {entry["MessageId"]: entry for entry in chosen}
        found = [self._again(entry, chance) for entry in by_id.values()]
        return [entry for entry in found if entry is not None]

    def _again(self, entry: Entry, chance: Random) -> Entry | None:
        fresh = str(uuid.UUID(int=chance.getrandbits(128), version=4)) if chance.random() < 0.5 else None
        handle = self._receipts.delivered_again(entry["MessageId"], fresh)
        if handle is None:
            return None
        again = copy.deepcopy(entry) | {"ReceiptHandle": handle}
        system = again.get("Attributes", {})
        if "ApproximateReceiveCount" in system:
            system["ApproximateReceiveCount"] = str(int(system["ApproximateReceiveCount"]) + 1)
        return again

    def hold(self, queue: str, entries: list[Entry], share: float, until: float, chance: Random) -> list[Entry]:
        """Shuffles, keeps some back (at least one of several) for a receive after `until` and returns the rest."""
        chance.shuffle(entries)
        kept = [entry for entry in entries if chance.random() < share]
        if not kept and len(entries) > 1:
            kept = entries[:1]
        self._queues[queue].held += [(until, entry) for entry in kept]
        return [entry for entry in entries if entry not in kept]

    def take_held(self, queue: str, most: int, now: float) -> list[Entry]:
        held = self._queues[queue].held
        due = [one for one in held if one[0] <= now][:most]
        for one in due:
            held.remove(one)
        return [entry for _, entry in due]
