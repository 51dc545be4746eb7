"""Generated ids: UUIDv7 turn ids and W3C trace ids. Pure: time and randomness are arguments."""

import re
from dataclasses import dataclass
from uuid import UUID

_TRACEPARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}(?P<more>-.*)?"
)


def uuid7(unix_milliseconds: int, random_bits: int) -> UUID:
    """A UUIDv7 (RFC 9562): 48 bits of time, then 74 of `random_bits`.

    It sorts by creation time to the millisecond, so inserts stay at one end of the primary key's index. It does not order a
    session's turns: `seq` does.
    """
    high = (unix_milliseconds & 0xFFFF_FFFF_FFFF) << 16 | 0x7000 | (random_bits >> 62) & 0x0FFF
    low = 0b10 << 62 | random_bits & 0x3FFF_FFFF_FFFF_FFFF
    return UUID(int=high << 64 | low)


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The turn's place in a distributed trace: W3C ids in lower-case hex (G6, G24)."""

    trace_id: str
    span_id: str
    parent_span_id: str | None = None

    @property
    def traceparent(self) -> str:
        """The W3C header and message attribute."""
        return f"00-{self.trace_id}-{self.span_id}-01"


def start_trace(random_bits: int) -> TraceContext:
    """A new root span; uses 192 random bits."""
    return TraceContext(trace_id=_nonzero_hex(random_bits >> 64, 32), span_id=_nonzero_hex(random_bits, 16))


def continue_trace(traceparent: str | None, random_bits: int) -> TraceContext:
    """A child of the caller's span, or a new root span if `traceparent` is missing or not valid W3C.

    The W3C recommendation says to ignore an invalid header, not to refuse it.
    """
    match = _TRACEPARENT.fullmatch(traceparent.strip()) if traceparent else None
    if match is None or match["version"] == "ff" or not int(match["trace"], 16) or not int(match["span"], 16):
        return start_trace(random_bits)
    if match["version"] == "00" and match["more"]:
        # Only later versions may have further fields.
        return start_trace(random_bits)
    return TraceContext(match["trace"], _nonzero_hex(random_bits, 16), parent_span_id=match["span"])


def _nonzero_hex(bits: int, digits: int) -> str:
    # W3C declares the all-zero id invalid.
    return format(bits & (1 << 4 * digits) - 1 or 1, f"0{digits}x")
