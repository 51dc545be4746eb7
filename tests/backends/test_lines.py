"""Lines that take turns."""

import pytest

from turnstile.backends.lines import Lines


def lines_of(*items: str) -> Lines[str]:
    """The first letter is the name of the line."""
    lines: Lines[str] = Lines(lambda item: item[0])
    for item in items:
        lines.append(item)
    return lines


def drain(lines: Lines[str]) -> list[str]:
    return [lines.popleft() for _ in range(len(lines))]


def test_one_line_is_first_in_first_out() -> None:
    assert drain(lines_of("a1", "a2", "a3")) == ["a1", "a2", "a3"]


def test_the_lines_take_turns() -> None:
    assert drain(lines_of("a1", "a2", "a3", "b1", "c1", "b2")) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_a_line_that_comes_later_waits_for_one_item_of_each_other() -> None:
    lines = lines_of("a1", "a2", "b1", "b2")
    assert lines.popleft() == "a1"

    lines.append("c1")

    assert drain(lines) == ["b1", "a2", "c1", "b2"]


def test_an_empty_queue_has_no_length_and_no_item() -> None:
    lines = lines_of("a1")
    lines.popleft()

    assert not lines
    with pytest.raises(KeyError):
        lines.popleft()
