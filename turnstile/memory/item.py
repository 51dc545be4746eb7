"""Items of the working memory: their form, their limits and their encoding. Pure."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from turnstile.memory.kinds import (
    HIGHEST_PRIORITY,
    LOWEST_PRIORITY,
    NEUTRAL_PRIORITY,
    Kind,
    Pressure,
    find_kind,
    time_to_live,
)
from turnstile.turn.stored_json import MAX_DEPTH, is_too_deep

MAX_VALUE_BYTES = 100 * 1024
"""Bytes of value and metadata together, as JSON. Larger values belong in another store, and their address here."""
MAX_ITEMS = 200
"""Items of one session that are not durable."""
MAX_BATCH = 100
MAX_TAGS = 16

_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    key: str
    kind: str
    text: str = field(repr=False)
    """Value and metadata as stored: see `encode`."""
    value: Any = field(init=False)
    metadata: Mapping[str, Any] = field(init=False)
    version: int
    """Rises with every write, also after a deletion. Versions of different kinds can't be compared."""
    context: str | None
    priority: int
    tags: frozenset[str]
    created_at: datetime
    updated_at: datetime
    expires_in_seconds: float

    def __post_init__(self) -> None:
        value, metadata = json.loads(self.text)
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "metadata", metadata)

    @property
    def place(self) -> "Place":
        return Place(find_kind(self.kind), self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """An item to store. Raises ValueError if it is invalid."""

    key: str
    value: Any
    kind: str = "item"
    context: str | None = None
    priority: int = NEUTRAL_PRIORITY
    ttl: float | None = None
    """Seconds; limited to the bounds of the kind."""
    tags: Collection[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    expected_version: int | None = None
    """Writes only if the item has this version; 0: only if there is no item."""
    text: str = field(init=False, repr=False, compare=False)
    """Value and metadata as JSON, encoded at once: later changes to the value are not written."""

    def __post_init__(self) -> None:
        check_name("key", self.key)
        find_kind(self.kind).lifetime.chosen(self.ttl)
        if self.context is not None:
            check_name("context", self.context)
        check_priority(self.priority)
        if isinstance(self.tags, str) or len(self.tags) > MAX_TAGS:
            raise ValueError(f"tags must be a collection of at most {MAX_TAGS} strings")
        for tag in self.tags:
            check_name("tag", tag)
        if self.expected_version is not None and (type(self.expected_version) is not int or self.expected_version < 0):
            raise ValueError(f"expected_version must be a whole number from 0, got {self.expected_version!r}")
        object.__setattr__(self, "text", encode(self.value, self.metadata))
        if is_too_deep(self.value) or is_too_deep(dict(self.metadata)):
            raise ValueError(f"the value or its metadata is nested more than {MAX_DEPTH} levels deep")

    @property
    def place(self) -> "Place":
        return Place(find_kind(self.kind), self.key)

    def seconds(self, pressure: Pressure = Pressure.NONE) -> float:
        return time_to_live(find_kind(self.kind), self.ttl, self.priority, pressure)


class Verdict(StrEnum):
    KEPT = "kept"
    CONFLICT = "conflict"
    """The item's version was not the expected one."""
    NOT_KEPT = "not kept"
    """Redis is away, or too full for an item of low priority. Never for a durable kind."""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write; true if the item was kept."""

    verdict: Verdict
    version: int = 0
    """KEPT only: the item's version now."""

    def __bool__(self) -> bool:
        return self.verdict is Verdict.KEPT


class MemoryFullError(ValueError):
    """The session's memory has reached its limit."""


@dataclass(frozen=True, slots=True)
class Place:
    """An item's place in its session: keys of different kinds are different items."""

    kind: Kind
    key: str

    @property
    def field(self) -> str:
        """The field's name in Redis."""
        return f"{self.kind.name}:{self.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Selects the items that match all given arguments. Raises ValueError."""

    kind: str | None = None
    context: str | None = None
    tag: str | None = None
    min_priority: int = LOWEST_PRIORITY

    def __post_init__(self) -> None:
        if self.kind is not None:
            find_kind(self.kind)
        if self.context is not None:
            check_name("context", self.context)
        if self.tag is not None:
            check_name("tag", self.tag)
        check_priority(self.min_priority)

    def fits(self, item: Item) -> bool:
        """Whether an item matches; the same result as by `session_scripts.FIND`, for durable items."""
        return (
            self.kind in (None, item.kind)
            and self.context in (None, item.context)
            and (self.tag is None or self.tag in item.tags)
            and item.priority >= self.min_priority
        )


def in_order(items: Sequence[Item]) -> list[Item]:
    """The most important first; among equals the latest write first."""
    return sorted(items, key=lambda item: (-item.priority, -item.updated_at.timestamp(), item.kind, item.key))


def encode(value: Any, metadata: Mapping[str, Any]) -> str:
    """Value and metadata as JSON text; raises ValueError if they are not JSON or too large."""
    try:
        text = json.dumps([value, dict(metadata)], ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError("the value contains half of a surrogate pair, which no store takes") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the value is not JSON: {error}") from None
    if size > MAX_VALUE_BYTES:
        raise ValueError(f"the value has {size} bytes as JSON, more than {MAX_VALUE_BYTES}")
    return text


def check_name(what: str, name: object) -> None:
    """Raises ValueError for an invalid key, context or tag."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{what} must be 1 to 128 characters, none of them a control character, got {name!r:.80}")


def check_limit(what: str, many: object, most: int) -> None:
    """Raises ValueError unless `many` is a whole number from 0 to `most`."""
    if type(many) is not int or not 0 <= many <= most:
        raise ValueError(f"{what}: at most {most}, got {many!r}")


def check_priority(priority: object) -> None:
    """Raises ValueError for an invalid priority."""
    if type(priority) is not int or not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise ValueError(f"priority must be {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}, got {priority!r}")
