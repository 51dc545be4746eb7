"""The pause of a queue as a worker knows it."""

import structlog.testing

from turnstile.worker.queue_pause import QueuePause


def test_until_the_table_is_read_a_worker_begins_no_turn_and_says_nothing() -> None:
    changes: list[bool] = []
    with structlog.testing.capture_logs() as lines:
        pause = QueuePause(begins_paused=True)
        pause.on_change(lambda: changes.append(pause.is_on))
        assert (pause.is_on, pause.is_known) == (True, False)

        pause.set(False)

    assert (changes, lines, pause.is_known) == ([False], [], True)


def test_a_pause_and_its_end_are_logged_once_each() -> None:
    with structlog.testing.capture_logs() as lines:
        pause = QueuePause(begins_paused=True)
        for is_on in (True, True, False, False):
            pause.set(is_on)

    assert [line["event"] for line in lines] == ["worker.paused", "worker.resumed"]


def test_a_broken_handler_and_operators_pause_a_worker_each_by_itself() -> None:
    pause, changes = QueuePause(), list[bool]()
    pause.on_change(lambda: changes.append(pause.is_on))

    pause.set_broken(True)
    pause.set(True)
    pause.set_broken(False)
    still = pause.is_on
    pause.set(False)

    assert (still, changes) == (True, [True, False])


def test_a_table_that_says_the_same_again_is_not_a_change() -> None:
    """A change counts as a poll that returned: a deaf worker of a queue that is not paused would never be found."""
    pause, changes = QueuePause(), list[bool]()
    pause.on_change(lambda: changes.append(pause.is_on))

    for is_on in (False, False, True, True, False):
        pause.set(is_on)

    assert changes == [True, False]
