"""How long a hold may go on."""

from uuid import UUID

import pytest

from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.message import WakeUp
from turnstile.worker.kept_alive import KeptAlive
from turnstile.worker.session_run import SessionRun

SETTINGS = Settings(session_run_turns=3, session_run_seconds=10.0, queues=(QueueSettings(name="turns"),))


@pytest.fixture
def hold() -> SessionRun:
    message = ReceivedMessage("id", "body", "handle", 1, {}, moved_by_sqs=False)
    return SessionRun(WakeUp("t", "s", UUID(int=1)), message, None, KeptAlive(None, message), started_at=100.0)


def test_where_its_slot_is_wanted_a_hold_may_go_on_until_it_has_done_its_turns(hold: SessionRun) -> None:
    may = []
    for hold.turns in range(5):
        may.append(hold.may_go_on(SETTINGS, 100.0, wanted=True))

    assert may == [True, True, True, False, False]


def test_where_nobody_wants_its_slot_it_counts_no_turns(hold: SessionRun) -> None:
    hold.turns = 1000

    assert hold.may_go_on(SETTINGS, 100.0, wanted=False)


@pytest.mark.parametrize("wanted", [False, True])
def test_a_hold_may_go_on_until_its_time_is_over(hold: SessionRun, wanted: bool) -> None:
    assert [hold.may_go_on(SETTINGS, now, wanted=wanted) for now in (109.9, 110.0)] == [True, False]


def test_an_exhausted_hold_may_not_go_on(hold: SessionRun) -> None:
    hold.exhausted = True

    assert not hold.may_go_on(SETTINGS, 100.0, wanted=False)
