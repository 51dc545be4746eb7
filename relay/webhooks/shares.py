"""Who may have how many of the places for webhooks under way, so that a slow receiver takes up its own and no others'.

By host, because that is what is slow, and by tenant, because one tenant may name many hosts. What is due beyond a share is put
off: it goes to the end of a line, whose members come back one by one. So however many one receiver is owed, few of them stand
in front of the others', and they cost two hundred writes a second, a batch a look; and a receiver that is merely busy finds one
due when a place is free.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from turnstile.statements.webhooks import Choice, DueWebhook

PER_HOST = 16
PER_TENANT = 32
"""More than a host's: where all turns are one tenant's, one of its receivers must not be all."""
LINE_SECONDS = 0.005
"""From one of a line to the next. As fast as a share is worked off where a receiver takes a POST in 80 ms."""


@dataclass(slots=True)
class WebhookShares:
    """What is under way in this process, and who waits behind it."""

    clock: Callable[[], float] = time.monotonic
    _hosts: Counter[str] = field(default_factory=Counter)
    _tenants: Counter[str] = field(default_factory=Counter)
    _lines: dict[tuple[str, str], float] = field(default_factory=dict)
    """When the last of each line comes back."""

    def begin(self, webhook: DueWebhook) -> None:
        """It takes up a place."""
        self._hosts[webhook.host] += 1
        self._tenants[webhook.tenant_id] += 1

    def end(self, webhook: DueWebhook) -> None:
        """And gives it back."""
        for counter, key in ((self._hosts, webhook.host), (self._tenants, webhook.tenant_id)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]

    def choose(self, due: Sequence[DueWebhook], room: int) -> Choice:
        """Of these, in the order of their turn, as many as there is room for: whose host has the fewest under way comes first."""
        now = self.clock()
        self._lines = {line: end for line, end in self._lines.items() if end > now}
        hosts, tenants, places = Counter(self._hosts), Counter(self._tenants), Counter(self._hosts)
        ranked: list[tuple[int, str, DueWebhook]] = []
        for one in due:
            host = one.host
            ranked.append((places[host], host, one))
            places[host] += 1
        choice = Choice([], [])
        for _, host, one in sorted(ranked, key=lambda placed: placed[0]):
            if hosts[host] >= PER_HOST:
                choice.put_off.append((one, self._stand_in_line(("host", host), now)))
            elif tenants[one.tenant_id] >= PER_TENANT:
                choice.put_off.append((one, self._stand_in_line(("tenant", one.tenant_id), now)))
            elif len(choice.taken) < room:
                choice.taken.append(one)
                hosts[host] += 1
                tenants[one.tenant_id] += 1
        return choice

    def _stand_in_line(self, line: tuple[str, str], now: float) -> float:
        self._lines[line] = max(now, self._lines.get(line, 0.0)) + LINE_SECONDS
        return self._lines[line] - now
