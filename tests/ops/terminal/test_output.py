"""What is printed: without control characters on a screen, and tables unfolded."""

import io
import json
import re
import sys
from datetime import UTC, datetime
from operator import itemgetter
from types import SimpleNamespace
from uuid import UUID

import pytest
import typer

from tests.conftest import ROOT
from turnstile.ops.dead_letters.redrive import RedriveResult
from turnstile.ops.dead_letters.redrive_command import as_document
from turnstile.ops.submit.submit_command import _report_ended
from turnstile.ops.terminal import output
from turnstile.ops.terminal.options import confirm
from turnstile.ops.terminal.output import (
    Progress,
    as_json_line,
    print_json,
    print_table,
    print_text,
    short_duration,
    shortened,
)
from turnstile.telemetry.terminal_text import harmless
from turnstile.turn.status import TurnStatus


def test_control_characters_never_reach_the_screen() -> None:
    assert harmless("\x1b]0;title\x07ok\u202e\n") == "·]0;title·ok·\n"


ESCAPES = "\x1b]0;title\x07 \u202e \x9b31m ü\n"


def test_a_turn_that_failed_is_named_without_the_control_characters_of_its_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit):
        _report_ended({"id": 7, "status": "FAILED", "error": {"class": "E\x1b", "message": ESCAPES}}, as_json=False)

    assert capsys.readouterr().err == f"turn 7 is FAILED: E·: {harmless(ESCAPES)}\n"


def test_a_turn_whose_error_only_operators_see_is_named_by_its_class(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        _report_ended({"id": 7, "status": "FAILED", "error": {"class": "ValueError", "message": None}}, as_json=False)

    assert capsys.readouterr().err == "turn 7 is FAILED: ValueError\n"


def test_a_question_is_asked_without_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True, readline=lambda: "y\n"))

    confirm(ESCAPES, yes=False)

    assert capsys.readouterr().err == f"{harmless(ESCAPES)} [y/N] "


def test_a_text_is_harmless_on_a_terminal_and_unchanged_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys.stdout, "isatty", lambda: True)
        print_text(ESCAPES)
    print_text(ESCAPES)

    assert capsys.readouterr().out == f"{harmless(ESCAPES)}\n{ESCAPES}\n"


def test_json_on_a_terminal_says_the_same_in_escapes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    print_json({"said": ESCAPES})
    line = as_json_line({"said": ESCAPES})

    out = capsys.readouterr().out
    assert json.loads(out) == {"said": ESCAPES}
    assert json.loads(line) == {"said": ESCAPES}
    assert harmless(out + line) == out + line
    assert "ü" in out


def test_commands_print_in_one_place_only() -> None:
    """The one that makes texts harmless."""
    printing = [
        path
        for path in (ROOT / "turnstile" / "ops").rglob("*.py")
        if re.search(r"\becho\(|\bprint\(", path.read_text())
    ]

    assert [path.name for path in printing] == ["output.py"]


def test_a_table_has_a_line_for_each_row_however_long_with_markup_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "[red]a[/red]", "text": "x" * 300}, {"name": None, "text": "[/nope]\n\x1b\tb"}]
    print_table({"name": lambda row: row["name"], "text": itemgetter("text")}, rows)

    assert capsys.readouterr().out.splitlines() == [
        "name          text",
        f"[red]a[/red]  {'x' * 300}",
        "              [/nope] · b",
    ]


def test_characters_of_two_cells_leave_the_columns_straight(capsys: pytest.CaptureFixture[str]) -> None:
    print_table({"session": itemgetter(0), "turn": itemgetter(1)}, [("相談", 1), ("abc", 2)])

    assert capsys.readouterr().out.splitlines() == ["session  turn", "相談     1", "abc      2"]


def test_json_knows_the_values_of_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    print_json({"id": UUID(int=1), "at": moment, "status": TurnStatus.FAILED, "text": "für"})

    out = capsys.readouterr().out
    assert json.loads(out) == {
        "id": "00000000-0000-0000-0000-000000000001",
        "at": "2026-01-02T00:00:00Z",
        "status": "FAILED",
        "text": "für",
    }


def test_progress_is_a_line_every_ten_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = Progress()
    progress.say("too soon")
    monkeypatch.setattr(output, "PROGRESS_EVERY_SECONDS", 0.0)
    progress.say("1 of 2 turns put back")

    assert capsys.readouterr().err == "1 of 2 turns put back\n"


def test_a_long_error_is_cut_to_its_first_line() -> None:
    assert shortened("first\nsecond") == "first"
    assert len(shortened("x" * 100)) == 60
    assert shortened(None) == ""


def test_a_dry_run_of_a_redrive_has_the_same_keys() -> None:
    assert as_document([], None).keys() == as_document([], RedriveResult()).keys()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""), (-0.1, "0ms"), (0.0234, "23ms"), (0.9996, "1.0s"), (9.94, "9.9s"), (9.96, "10s"), (59.6, "1m"),
        (303.0, "5m03s"), (312.0, "5m12s"), (86_400, "1d"), (11_220.0, "3h07m"), (187_200.0, "2d04h"),
    ],
)  # fmt: skip
def test_a_duration_is_shown_in_its_two_largest_units(seconds: float | None, text: str) -> None:
    assert short_duration(seconds) == text


def test_json_stays_json_where_the_encoding_lacks_a_character(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="latin-1", errors="backslashreplace"))

    print_json({"text": "🙂"})

    assert json.loads(written.getvalue()) == {"text": "🙂"}
