"""Text for people is folded to the terminal's width, and a command stays on one line."""

import pytest

from turnstile.ops.terminal.folding import fold, terminal_columns, whole


def test_lines_are_no_wider_than_the_terminal_and_the_further_ones_are_indented() -> None:
    assert fold("one two three four", 10, indent="> ", further="    ") == ["> one two", "    three", "    four"]


def test_a_command_in_backticks_and_what_is_whole_are_never_broken() -> None:
    assert fold("see `turnstile why 01a1-02`, or not", 12) == ["see", "  `turnstile why 01a1-02`,", "  or not"]
    assert fold(f"at {whole('2026-11-21 12:00:00Z')} or later", 12) == ["at", "  2026-11-21 12:00:00Z", "  or later"]


def test_the_width_is_that_of_the_environment_and_without_a_terminal_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "123")
    assert terminal_columns() == 123
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("sys.__stdout__", None)
    assert terminal_columns() > 10_000
