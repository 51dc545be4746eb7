"""Rate limits: where they are declared, and which are refused."""

import re
from pathlib import Path

import pytest

from turnstile.config.config_file import load
from turnstile.errors import SettingsError

RATE = '[[rates]]\nname = "submits"\nper = "tenant"\nlimit = 600\n'
QUEUE = '[[queues]]\nname = "chat"\n'


def test_no_rate_is_limited_by_default() -> None:
    assert load().rates == ()


def test_rate_limits_are_declared_in_the_file_beside_the_queues(tmp_path: Path) -> None:
    (tmp_path / "turnstile.toml").write_text(QUEUE + RATE)
    settings = load()

    assert [queue.name for queue in settings.queues] == ["chat"]
    assert [(rate.name, rate.limit, rate.seconds, rate.window) for rate in settings.rates] == [
        ("submits", 600, 60, "sliding")
    ]


def test_each_list_of_the_environment_wins_over_that_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "turnstile.toml").write_text(QUEUE + RATE)
    monkeypatch.setenv("TURNSTILE_QUEUES", '[{"name": "vip"}]')
    assert [(settings.queues[0].name, settings.rates[0].name) for settings in [load()]] == [("vip", "submits")]
    monkeypatch.setenv("TURNSTILE_RATES", '[{"name": "reads", "per": "session", "limit": 5}]')
    assert [rate.name for rate in load().rates] == ["reads"]
    monkeypatch.setenv("TURNSTILE_RATES", "")
    assert load().rates == ()


def test_rate_limits_alone_declare_no_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "turnstile.toml").write_text(RATE)
    with pytest.raises(SettingsError, match=r"turnstile\.toml: declares no queue: add a"):
        load()
    monkeypatch.setenv("TURNSTILE_QUEUES", '[{"name": "vip"}]')
    assert len(load().rates) == 1


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ('per = "tenant"\nlimit = 0', "turnstile.toml, rate limit 1: limit: Input should be greater than"),
        ('per = "address"\nlimit = 1', "turnstile.toml, rate limit 1: per: Input should be"),
        ('per = "tenant"\nlimit = 1\nburst = 2', "rate limit 1: burst: is not an option of a rate limit"),
        (
            'per = "session"\nlimit = 1\nseconds = 3601',
            "rate limit 'a': seconds (3601) must be at most 3600 per session",
        ),
        (f'per = "tenant"\nlimit = 1\n{RATE}{RATE}', "each rate limit needs a name of its own"),
    ],
)
def test_a_rate_limit_that_is_wrong_is_refused_by_its_place(fields: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "turnstile.toml").write_text(f'{QUEUE}[[rates]]\nname = "a"\n{fields}\n')

    with pytest.raises(SettingsError, match=re.escape(complaint)):
        load()
