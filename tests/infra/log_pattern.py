"""CloudWatch's filter patterns for JSON log lines, as far as the alarms use them: equality of text, or that a field is there
(`= *`), joined by && or ||.

The emulator takes every JSON pattern for a match, so the patterns are judged here.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_EQUAL = re.compile(r'^\(?\s*\$\.(\w+)\s*=\s*(?:"([^"]*)"|\*)\s*\)?$')


def matches(pattern: str, line: Mapping[str, Any] | str) -> bool:
    """Whether the metric filter counts the line. ValueError for a pattern that is not of the forms above."""
    if isinstance(line, str):
        try:
            line = json.loads(line)
        except ValueError:
            return False
    inner = pattern.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise ValueError(f"not a pattern for JSON: {pattern}")
    inner = inner[1:-1].strip()
    if "&&" in inner and "||" in inner:
        raise ValueError(f"both && and ||: {pattern}")
    if "||" in inner:
        return any(_is_equal(term, line) for term in inner.split("||"))
    return all(_is_equal(term, line) for term in inner.split("&&"))


def events_of(pattern: str) -> set[str]:
    """The events that a pattern names."""
    return {value for field, value in re.findall(r'\$\.(\w+)\s*=\s*"([^"]*)"', pattern) if field == "event"}


def _is_equal(term: str, line: Mapping[str, Any] | Any) -> bool:
    found = _EQUAL.match(term.strip())
    if found is None:
        raise ValueError(f"not an equality of text: {term.strip()}")
    field, value = found.groups()
    return isinstance(line, Mapping) and (field in line if value is None else line.get(field) == value)
