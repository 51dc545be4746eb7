"""Bounds the values of a label that come from outside: each value makes time series, which a monitoring system keeps."""

import threading

OTHER = "other"
MAX_CHARACTERS = 100


class BoundedValues:
    """The first `most` different values of a process; every later one counts as OTHER. For any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()
        self._guard = threading.Lock()

    def bound(self, value: str) -> str:
        """The label for `value`: at most 100 characters, and text that can be encoded as UTF-8."""
        # One lone surrogate would make every later scrape of the process fail.
        text = value[:MAX_CHARACTERS].encode("utf-8", "replace").decode()
        with self._guard:
            if text and text not in self._known:
                if len(self._known) >= self._most:
                    return OTHER
                self._known.add(text)
        return text
