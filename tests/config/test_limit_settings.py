"""The settings of the limits of the fleet."""

import json
from pathlib import Path

import pytest

from tests.config.refusals import refusal
from turnstile.config.config_file import load


def test_limits_are_declared_beside_the_queues(tmp_path: Path) -> None:
    (tmp_path / "turnstile.toml").write_text(
        '[[queues]]\nname = "chat"\n[[limits]]\nname = "models"\nkey = "metadata.model"\nconcurrency = 3\nrate = 2\n'
    )

    assert [(limit.name, limit.key, limit.concurrency, limit.rate) for limit in load().limits] == [
        ("models", "metadata.model", 3, 2.0)
    ]


def test_limits_of_the_environment_win_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "turnstile.toml").write_text(
        '[[queues]]\nname = "chat"\n[[limits]]\nname = "a"\nkey = "tenant"\nrate = 2\n'
    )
    monkeypatch.setenv("TURNSTILE_LIMITS", json.dumps([{"name": "b", "key": "queue", "concurrency": 3}]))

    assert [limit.name for limit in load().limits] == ["b"]


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ('key = "tenant"', "limits nothing"),
        ('key = "model"\nrate = 1', "limit 1: key"),
        ('key = "tenant"\nconcurrency = 1\nburst = 2', "a burst without a rate"),
        ('key = "tenant"\nconcurrency = 0', "limit 1: concurrency"),
        ('key = "tenant"\nrate = 1\nrates = 2', "rates: is not an option of a limit"),
        ('key = "tenant"\nrate = 1\n[[limits]]\nname = "l"\nkey = "queue"\nrate = 1', "declared only once"),
    ],
)
def test_a_wrong_limit_is_refused_with_a_reason(tmp_path: Path, limit: str, why: str) -> None:
    (tmp_path / "turnstile.toml").write_text(f'[[queues]]\nname = "chat"\n[[limits]]\nname = "l"\n{limit}\n')

    assert why in refusal()
