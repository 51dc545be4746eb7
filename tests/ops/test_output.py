"""What is printed: without control characters on a screen, and tables unfolded."""

import io
import json
from datetime import UTC, datetime
from operator import itemgetter
from uuid import UUID

import pytest

from turnstile.ops.commands.redrive import as_document
from turnstile.ops.dead_letters.redrive import RedriveResult
from turnstile.ops.terminal import output
from turnstile.ops.terminal.output import Progress, harmless, print_json, print_table, short_duration, shortened
from turnstile.turn.status import TurnStatus


def test_control_characters_never_reach_the_screen() -> None:
    assert harmless("\x1b]0;title\x07ok\u202e\n") == "·]0;title·ok·\n"


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
