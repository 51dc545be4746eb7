"""The settings of the retention."""

import json
from pathlib import Path

import pytest

from tests.config.refusals import refusal
from turnstile.config.config_file import load


def test_the_file_says_how_long_turns_are_kept_for_all_queues_and_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "turnstile.toml").write_text(
        'retention_days = 30\narchive_days = 5\nrecords_days = "forever"\n[[queues]]\nname = "chat"\n'
        '[[queues]]\nname = "bulk"\nretention_days = 7\n[[queues]]\nname = "legal"\nretention_days = 0\narchive_days = 0\n'
    )
    settings = load()

    assert [settings.find_retention(queue) for queue in settings.queues] == [(30.0, 5.0), (7.0, 5.0), (None, 0.0)]
    assert settings.records_days == "forever"
    monkeypatch.setenv("TURNSTILE_RETENTION_DAYS", "60")
    assert load().find_retention(settings.find_queue("chat")) == (60.0, 5.0)


def test_nothing_set_deletes_ended_turns_after_90_days() -> None:
    settings = load()

    assert settings.find_retention(settings.queues[0]) == (90.0, 0.0)


@pytest.mark.parametrize("days", ["0.5", "-1", "never", "true"])
def test_an_age_of_turns_is_a_day_or_more_or_forever(monkeypatch: pytest.MonkeyPatch, days: str) -> None:
    monkeypatch.setenv("TURNSTILE_RETENTION_DAYS", days)

    assert refusal() == "TURNSTILE_RETENTION_DAYS: must be a number of days from 1 to 36,500, or forever"


def test_a_turn_is_not_deleted_before_its_idempotency_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_IDEMPOTENCY_DAYS", "20")
    monkeypatch.setenv("TURNSTILE_QUEUES", json.dumps([{"name": "chat", "retention_days": 7}]))

    assert "retention_days of queue 'chat' (7) must not be shorter than TURNSTILE_IDEMPOTENCY_DAYS (20)" in refusal()
