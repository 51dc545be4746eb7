"""How long a session run may go on."""

from uuid import UUID

import pytest

from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.session_run import SessionRun

SETTINGS = Settings(session_run_turns=3, session_run_seconds=10.0, queues=(QueueSettings(name="turns"),))


@pytest.mark.parametrize(
    ("turns", "seconds", "wanted", "exhausted", "may"),
    [
        (2, 0.0, True, False, True),
        (3, 0.0, True, False, False),
        (1000, 0.0, False, False, True),
        (0, 9.9, False, False, True),
        (0, 10.0, False, False, False),
        (0, 0.0, False, True, False),
    ],
    ids=["last turn", "slot wanted", "slot not wanted", "in time", "over time", "exhausted"],
)
def test_a_run_goes_on_within_its_time_and_if_its_slot_is_wanted_its_turns(
    turns: int, seconds: float, wanted: bool, exhausted: bool, may: bool
) -> None:
    wake_up, entry = WakeUp("t", "s", UUID(int=1)), HeartbeatEntry(None, None)
    run = SessionRun(wake_up, None, None, entry, started_at=100.0, turns=turns, exhausted=exhausted)

    assert run.may_go_on(SETTINGS, 100.0 + seconds, wanted=wanted) is may
