"""How long a session run may go on, and when it looks at its session once more."""

from uuid import UUID

import pytest

from tests.support.session_runs import new_run
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.session_lock import Release
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


def test_a_superseded_run_claims_no_further_turn() -> None:
    run = new_run()

    run.supersede()

    assert not run.may_go_on(SETTINGS, run.started_at, wanted=False)


@pytest.mark.parametrize("released", [Release.LOST, Release.UNKNOWN])
def test_after_work_and_a_release_that_may_have_lost_a_mark_the_session_is_looked_at_once(released: Release) -> None:
    run = new_run()
    run.worked_since_look = True

    assert [run.must_look_again(released), run.must_look_again(released)] == [True, False]


def test_a_wake_up_during_the_run_makes_it_look_at_the_session_once() -> None:
    run = new_run()
    run.entry.look_again = True

    assert [run.must_look_again(Release.RELEASED), run.must_look_again(Release.RELEASED)] == [True, False]
