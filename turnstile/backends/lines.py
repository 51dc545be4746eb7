"""A queue in which each line gets its turn: who has a thousand items in it delays the items of the others by one each. Pure."""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Lines(Generic[Item]):
    """Items in lines: `line_of` returns the name of an item's line. First in, first out in each line; the lines take
    turns."""

    def __init__(self, line_of: Callable[[Item], str]) -> None:
        self._line_of = line_of
        # The line whose turn is next is the first. A line is here as long as it has items.
        self._lines: OrderedDict[str, deque[Item]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, item: Item) -> None:
        name = self._line_of(item)
        line = self._lines.get(name)
        if line is None:
            self._lines[name] = line = deque()
        line.append(item)
        self._count += 1

    def popleft(self) -> Item:
        """The first item of the next line. Raises KeyError if there is none."""
        name, line = self._lines.popitem(last=False)
        item = line.popleft()
        if line:
            self._lines[name] = line
        self._count -= 1
        return item
