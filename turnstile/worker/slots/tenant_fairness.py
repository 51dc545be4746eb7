"""How many of a worker's slots each tenant has, which of its sessions wait for one, and for how long they are deferred. Pure.

A prefetched turn has a slot here too, while it still waits for its handler's slot (`worker.slots.slots`; ADR 0006). Times are
monotonic seconds.
"""

from collections import Counter, defaultdict
from typing import Literal, assert_never

TenantShare = int | Literal["fair", "all"]
"""How many slots one tenant may have: a number, "fair" (as many as leave room for others), or "all"."""

MAX_WAITING = 10_000
"""The most waiting sessions of one tenant in memory. The table has all of them."""

TIMES_FREE = 3
"""A tenant may have this many slots for each slot that stays free. One tenant that floods a worker has three quarters of its
slots, two have three sevenths each, three have three tenths each."""

ALWAYS = 8
"""A tenant with less than this part of the slots (1 / ALWAYS) is never deferred. So eight or more tenants use all slots of the
worker that they share, and their backlogs are not deferred again and again."""

REMEMBERED_SECONDS = 60.0
"""How long a worker keeps slots free after another tenant's last turn. A look at the table finds a tenant that comes later, so a
longer time would only leave slots idle."""

LEAST_DEFER_SECONDS = 5.0
"""The shortest deferral. Other workers may have room for the tenant by then."""
MOST_DEFER_SECONDS = 120.0
"""The longest deferral. A longer one could outlast the flood. With 50,000 sessions it means some 400 messages a second."""
TURN_SECONDS = 5.0
"""The assumed time of a turn, by which a tenant's line moves. Quicker turns lose nothing: each turn that ends wakes the session
that has waited longest."""


def crowds(taken: int, taken_by_all: int, count: int) -> bool:
    """Whether a tenant that has `taken` of a worker's `count` slots must leave the free ones to other tenants ("fair")."""
    # TIMES_FREE slots for each slot that stays free. So a new tenant finds a slot even during several floods, and the
    # floods get equal shares.
    free = count - taken_by_all
    return taken >= max(1, count // ALWAYS) and taken + 1 > TIMES_FREE * (free - 1)


class TenantSlots:
    """The `count` slots of one worker process by tenant, under the setting `tenant_slots`.

    `several`: other tenants are expected, though none has had a turn here yet.
    """

    def __init__(self, share: TenantShare, count: int, *, several: bool = False) -> None:
        self._share = share
        self._count = count
        self._several = several
        self._taken: Counter[str] = Counter()
        # A dict keeps the order, and a session waits only once, however many of its wake-ups come.
        self._waiting: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._seen_last: tuple[str, float] | None = None
        self._seen_before: tuple[str, float] | None = None
        """The last tenant seen before the one in `_seen_last`."""

    def see(self, tenant_id: str, now: float) -> None:
        """Notes that the tenant has a turn for this worker."""
        if self._seen_last is not None and self._seen_last[0] != tenant_id:
            self._seen_before = self._seen_last
            self._several = True
        self._seen_last = (tenant_id, now)

    def has_room(self, tenant_id: str, now: float) -> bool:
        match self._share:
            case "all":
                return True
            case "fair":
                return not self._crowds(tenant_id) or (
                    self._is_alone(tenant_id, now) and self._leaves_a_slot(tenant_id)
                )
            case int(most):
                return self._taken[tenant_id] < most
            case _:
                assert_never(self._share)

    def full_tenants(self, now: float) -> list[str]:
        return [tenant for tenant in self._taken if not self.has_room(tenant, now)]

    def must_look(self, tenant_id: str, now: float) -> bool:
        """Whether the tenant may take its next slot only if no other tenant waits behind its backlog."""
        return self._share == "fair" and self._crowds(tenant_id) and self.has_room(tenant_id, now)

    def enter(self, tenant_id: str, session_id: str, now: float) -> bool:
        """Takes a slot. If there is no room, remembers the session as waiting and returns False."""
        if self.has_room(tenant_id, now):
            self._taken[tenant_id] += 1
            self._forget(tenant_id, session_id)
            return True
        if len(self._waiting[tenant_id]) < MAX_WAITING:
            self._waiting[tenant_id][session_id] = None
        return False

    def leave(self, tenant_id: str) -> None:
        self._taken[tenant_id] -= 1
        if not self._taken[tenant_id]:
            del self._taken[tenant_id]

    def next_waiting(self, tenant_id: str, now: float) -> tuple[str, str] | None:
        """The tenant and session that get the slot that `tenant_id` gave back. Removes the session from the waiting ones.

        Under "fair" it is the tenant with the fewest slots among those that have room; its session that has waited longest.
        """
        tenants = list(self._waiting) if self._share == "fair" else [tenant_id]
        open_to = [one for one in tenants if self._waiting.get(one) and self.has_room(one, now)]
        if not open_to:
            return None
        chosen = min(open_to, key=lambda one: self._taken[one])
        longest = next(iter(self._waiting[chosen]))
        self._forget(chosen, longest)
        return chosen, longest

    def defer_seconds(self, tenant_id: str) -> float:
        """The deferral of the tenant's next session, in seconds: the more of its sessions wait, the longer."""
        line = TURN_SECONDS * (len(self._waiting.get(tenant_id, ())) + 1) / max(1, self._taken[tenant_id])
        return min(max(LEAST_DEFER_SECONDS, line), MOST_DEFER_SECONDS)

    def _forget(self, tenant_id: str, session_id: str) -> None:
        waiting = self._waiting.get(tenant_id, {})
        waiting.pop(session_id, None)
        if not waiting:
            self._waiting.pop(tenant_id, None)

    def _crowds(self, tenant_id: str) -> bool:
        return crowds(self._taken[tenant_id], self._taken.total(), self._count)

    def _leaves_a_slot(self, tenant_id: str) -> bool:
        """Whether one slot stays free if the tenant, which is alone, gets another. A client decides how long its turns take, and
        nothing that runs is stopped: without a free slot, the next tenant would wait as long. A worker that knows of one tenant
        only keeps none."""
        return not self._several or self._taken[tenant_id] + 1 < self._count

    def _is_alone(self, tenant_id: str, now: float) -> bool:
        if self._taken.total() > self._taken[tenant_id]:
            return False
        seen = self._seen_last
        if seen is not None and seen[0] == tenant_id:
            seen = self._seen_before
        return seen is None or now - seen[1] > REMEMBERED_SECONDS
