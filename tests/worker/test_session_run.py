"""How long a session run may go on."""

from uuid import UUID

import pytest

from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.message import WakeUp
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.session_run import SessionRun

SETTINGS = Settings(session_run_turns=3, session_run_seconds=10.0, queues=(QueueSettings(name="turns"),))


@pytest.fixture
def run() -> SessionRun:
    message = ReceivedMessage("id", "body", "handle", 1, {}, moved_by_sqs=False)
    return SessionRun(WakeUp("t", "s", UUID(int=1)), message, None, HeartbeatEntry(None, message), started_at=100.0)


def test_a_run_whose_slot_is_wanted_ends_after_its_turns(run: SessionRun) -> None:
    may = []
    for run.turns in range(5):
        may.append(run.may_go_on(SETTINGS, 100.0, wanted=True))

    assert may == [True, True, True, False, False]


def test_a_run_whose_slot_is_not_wanted_counts_no_turns(run: SessionRun) -> None:
    run.turns = 1000

    assert run.may_go_on(SETTINGS, 100.0, wanted=False)


def test_a_run_ends_after_its_time(run: SessionRun) -> None:
    assert [run.may_go_on(SETTINGS, now, wanted=False) for now in (109.9, 110.0)] == [True, False]


def test_an_exhausted_run_may_not_go_on(run: SessionRun) -> None:
    run.exhausted = True

    assert not run.may_go_on(SETTINGS, 100.0, wanted=False)
