"""How many of a worker's slots each tenant has, and who of it waits for one. Pure.

A turn that is in hand has one here, also while it waits for its handler's (`worker.slots`; ADR 0050).
"""

from collections import Counter, defaultdict

MAX_WAITING = 1000
"""Sessions of one tenant that are remembered. The table has all of them."""


class TenantSlots:
    """The slots of one worker process by tenant, at most `most` for each; None: as many as there are."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()
        # A dict for its order and because a session waits once, however many of its wake-ups come.
        self._waiting: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def has_room(self, tenant_id: str) -> bool:
        """Whether the tenant may take another slot."""
        return self._most is None or self._taken[tenant_id] < self._most

    def enter(self, tenant_id: str, session_id: str) -> bool:
        """Takes a slot; or, False, has the session remembered as one that waits for it."""
        if self.has_room(tenant_id):
            self._taken[tenant_id] += 1
            return True
        if len(self._waiting[tenant_id]) < MAX_WAITING:
            self._waiting[tenant_id][session_id] = None
        return False

    def leave(self, tenant_id: str) -> str | None:
        """Gives a slot back; which session of the tenant has waited for it the longest, if one has."""
        self._taken[tenant_id] -= 1
        if not self._taken[tenant_id]:
            del self._taken[tenant_id]
        return self.next_waiting(tenant_id)

    def next_waiting(self, tenant_id: str) -> str | None:
        """Which session has waited the longest, if the tenant has a slot for it; it is not remembered any more."""
        if not self.has_room(tenant_id) or not (waiting := self._waiting.get(tenant_id)):
            return None
        longest = next(iter(waiting))
        del waiting[longest]
        if not waiting:
            del self._waiting[tenant_id]
        return longest
