"""Counts refused credentials per client address, for a while, in bounded memory. Pure.

Nobody knows who is refused, so nobody who is refused may make memory or the table grow. Of a window, at most MOST_ADDRESSES
are kept apart, and at most MOST_NAMED of them become rows. All others are counted together.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network

MOST_ADDRESSES = 1000
MOST_NAMED = 10

_IPV6_CLIENT_BITS = 64
"""One client has at least so large a part of IPv6's addresses, and could use another one for each request."""

OTHERS = "other addresses"
UNKNOWN = "unknown address"


@dataclass(slots=True)
class RefusalWindow:
    """The refusals since the last row."""

    by_address: dict[str, Counter[str]] = field(default_factory=dict)
    """How many for each reason, by the client's name."""
    others: Counter[str] = field(default_factory=Counter)

    def note(self, client: str, reason: str, times: int = 1) -> None:
        """Counts a refusal of this client."""
        counts = self.by_address.get(client)
        if counts is None and len(self.by_address) < MOST_ADDRESSES:
            counts = self.by_address[client] = Counter()
        (self.others if counts is None else counts)[reason] += times

    @property
    def counts(self) -> list[tuple[str, Mapping[str, int]]]:
        """The clients with the most refusals, each with its counts by reason, and then all others together."""
        ordered = sorted(self.by_address.items(), key=lambda one: one[1].total(), reverse=True)
        named, further = ordered[:MOST_NAMED], ordered[MOST_NAMED:]
        others = sum((counts for _, counts in further), self.others)
        return [*named, (OTHERS, others)] if others else [*named]

    def add(self, other: "RefusalWindow") -> None:
        """Adds the refusals of another window."""
        for client, counts in other.by_address.items():
            for reason, times in counts.items():
                self.note(client, reason, times)
        self.others += other.others


def name_client(peer: str | None, headers: Sequence[tuple[bytes, bytes]]) -> str:
    """The client's name for a record: the address of the connection and, behind a proxy, the one that the proxy names.

    That is the last one of `X-Forwarded-For`: a load balancer adds it. Without a proxy in between, the client itself wrote it.
    """
    connected = _block_of(peer or "") or UNKNOWN
    given = [value for name, value in headers if name == b"x-forwarded-for"]
    forwarded = _block_of(given[-1].rpartition(b",")[2].strip().decode("latin-1")) if given else None
    return connected if forwarded is None else f"{connected} for {forwarded}"


def _block_of(text: str) -> str | None:
    """The address of one client: all of IPv4, or the network of IPv6. None for what is no address."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((int(address), _IPV6_CLIENT_BITS), strict=False))
