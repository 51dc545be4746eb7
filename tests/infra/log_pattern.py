"""CloudWatch's filter patterns for JSON log lines, as far as the alarms use them: equality of text, or that a field is there
(`= *`), joined by && or ||.

The emulator takes every JSON pattern for a match, so nothing else here shows that a pattern counts the product's real lines.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_TERM = re.compile(r'\(?\s*\$\.(\w+)\s*=\s*(?:"([^"]*)"|\*)\s*\)?')


def matches(pattern: str, line: Mapping[str, Any] | str) -> bool:
    """Whether the metric filter counts the line. Raises ValueError for a pattern of another form."""
    joint = "||" if "||" in pattern else "&&"
    terms = [_TERM.fullmatch(term.strip()) for term in pattern.strip("{ }").split(joint)]
    if None in terms:
        raise ValueError(f"not a form that infra/ uses: {pattern}")
    if isinstance(line, str):
        try:
            line = json.loads(line)
        except ValueError:
            return False
    if not isinstance(line, Mapping):
        return False
    said = [
        name in line if value is None else line.get(name) == value
        for name, value in (term.groups() for term in terms if term)
    ]
    return any(said) if joint == "||" else all(said)


def events_of(pattern: str) -> set[str]:
    """The events that a pattern names."""
    return {value for field, value in re.findall(r'\$\.(\w+)\s*=\s*"([^"]*)"', pattern) if field == "event"}
