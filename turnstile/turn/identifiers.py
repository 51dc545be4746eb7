"""Ids: those that we make (UUIDv7, W3C trace ids), those that clients choose, and the keys of a submit. Pure."""

import hashlib
import re
from dataclasses import dataclass, replace
from uuid import UUID

ID_PATTERN = r"[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,127}"
"""Pattern of the ids of tenants, sessions and queues. Clients and proxies take `.` and `..` out of a URL's path,
escaped ones too."""
ID_RULE = "1 to 128 of A-Z a-z 0-9 . _ : - and must not begin with a dot"
"""ID_PATTERN in words, for error messages."""

DEFAULT_TENANT = "default"
"""The tenant of turns if no API keys are configured, or if a command names no tenant."""

_ID = re.compile(ID_PATTERN)

_TRACEPARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)
_XRAY_ROOT = re.compile(r"1-([0-9a-f]{8})-([0-9a-f]{24})")
_SPAN_ID = re.compile(r"[0-9a-f]{16}")


def uuid7(unix_milliseconds: int, random_bits: int) -> UUID:
    """A UUIDv7 (RFC 9562): 48 bits of time, then 74 of `random_bits`.

    It sorts by creation time to the millisecond, so inserts stay at one end of the primary key's index. It does not order a
    session's turns: `seq` does.
    """
    high = (unix_milliseconds & 0xFFFF_FFFF_FFFF) << 16 | 0x7000 | (random_bits >> 62) & 0x0FFF
    low = 0b10 << 62 | random_bits & 0x3FFF_FFFF_FFFF_FFFF
    return UUID(int=high << 64 | low)


def chosen_prefix(tenant_id: str) -> str:
    """The first twelve hex digits of every turn id that the tenant's clients choose; ids of different tenants differ in them.

    The primary key of turns has no tenant. Without the prefix, a tenant could take ids that another one is going to choose, and
    find out which ids exist.
    """
    return hashlib.sha256(tenant_id.encode()).hexdigest()[:12]


def may_choose(tenant_id: str, turn_id: UUID) -> bool:
    """Whether a client of the tenant may choose the id. Ids of version 7 are ours: nobody can take one before we make it."""
    return turn_id.hex.startswith(chosen_prefix(tenant_id)) and turn_id.version != 7


def begins_with(turn_id: UUID, unix_milliseconds: int) -> bool:
    """Whether `uuid7` may have made the id at that time."""
    return turn_id.int >> 80 == unix_milliseconds & 0xFFFF_FFFF_FFFF


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The turn's place in a distributed trace: W3C ids in lower-case hex.

    The last bit of `span_id` says whether the trace is sampled: the decision goes wherever the id goes, also through the table.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None = None

    @property
    def sampled(self) -> bool:
        """Whether the spans of the turn are recorded, if traces are exported."""
        return self.span_id[-1:] in "13579bdf"

    @property
    def traceparent(self) -> str:
        """The W3C header and message attribute."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"

    def with_decision(self, *, sampled: bool) -> "TraceContext":
        """The same trace, sampled or not. Only for a span id that nobody knows yet."""
        return replace(self, span_id=_with_decision(self.span_id, sampled))

    def attempt(self, fence: int) -> "TraceContext":
        """The span of the attempt that the claim with this fence made: a child of the turn's span.

        Its id is derived, so that a later attempt, in any process, can name it.
        """
        digest = hashlib.blake2b(f"{self.trace_id}/{self.span_id}/{fence}".encode(), digest_size=8).hexdigest()
        return TraceContext(self.trace_id, _with_decision(digest, self.sampled), self.span_id)


def start_trace(random_bits: int) -> TraceContext:
    """A new root span, sampled; uses 192 random bits."""
    # W3C declares the all-zero id invalid.
    trace_id = format(random_bits >> 64 & (1 << 128) - 1 or 1, "032x")
    return TraceContext(trace_id, _span_id(random_bits, sampled=True))


def continue_trace(traceparent: str | None, random_bits: int, xray: str | None = None) -> TraceContext:
    """A child of the caller's span, or a new root span if `traceparent` is missing or not valid W3C.

    The W3C recommendation says to ignore an invalid header, not to refuse it. `xray`, the value of `X-Amzn-Trace-Id`, counts
    then instead. A load balancer sends it without a parent: the new span is a root of that trace.
    """
    return read_traceparent(traceparent, random_bits) or _read_xray(xray, random_bits) or start_trace(random_bits)


def read_traceparent(traceparent: str | None, random_bits: int = 0) -> TraceContext | None:
    """A child of the span that the header names; None if there is no valid header."""
    match = _TRACEPARENT.fullmatch(traceparent.strip()) if traceparent else None
    if match is None or match["version"] == "ff" or not int(match["trace"], 16) or not int(match["span"], 16):
        return None
    if match["version"] == "00" and match["more"]:
        # Only later versions may have further fields.
        return None
    sampled = bool(int(match["flags"], 16) & 1)
    return TraceContext(match["trace"], _span_id(random_bits, sampled=sampled), match["span"])


def for_xray(traceparent: str) -> str | None:
    """The same for AWS X-Ray: what `X-Amzn-Trace-Id` and SQS's attribute `AWSTraceHeader` say. None if it is not valid."""
    child = read_traceparent(traceparent)
    if child is None:
        return None
    root = f"1-{child.trace_id[:8]}-{child.trace_id[8:]}"
    return f"Root={root};Parent={child.parent_span_id};Sampled={int(child.sampled)}"


def _read_xray(header: str | None, random_bits: int) -> TraceContext | None:
    fields = dict(part.strip().partition("=")[::2] for part in (header or "").split(";"))
    root = _XRAY_ROOT.fullmatch(fields.get("Root", "").lower())
    if root is None or not int(root[1] + root[2], 16):
        return None
    parent = fields.get("Parent", "").lower()
    if not _SPAN_ID.fullmatch(parent) or not int(parent, 16):
        parent = ""
    span_id = _span_id(random_bits, sampled=fields.get("Sampled") != "0")
    return TraceContext(root[1] + root[2], span_id, parent or None)


def _span_id(bits: int, *, sampled: bool) -> str:
    return _with_decision(format(bits & (1 << 64) - 1, "016x"), sampled)


def _with_decision(span_id: str, sampled: bool) -> str:
    # W3C declares the all-zero id invalid.
    return format(int(span_id, 16) & ~1 | sampled or 2, "016x")


def is_valid_id(text: str) -> bool:
    """Whether `text` may name a tenant or a session."""
    return _ID.fullmatch(text) is not None


def is_reserved_session(session_id: str) -> bool:
    """Whether only a settle may create turns in the session. A compensation must be the first turn of its session."""
    return session_id.startswith("compensation:")


RESERVED_RULE = "a session whose name begins with compensation: is for compensations"
"""The rule of `is_reserved_session` in words, for error messages."""


def idempotency_key(key: str) -> str:
    """The form of an Idempotency-Key in `submissions`, distinct from client-chosen turn ids."""
    return f"key:{key}"


def turn_id_key(turn_id: UUID) -> str:
    """The form of a turn id in `submissions`, for a request whose repeat only the id identifies."""
    return f"turn:{turn_id}"
