"""Whether a worker's first turns show that its handler is broken."""

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from tests.support.factories import CLAIMED
from tests.support.probes import until
from turnstile.handlers.handler import COMPENSATION
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import JoinPolicy
from turnstile.worker.attempt.outcome import Failed, Joining, Outcome, Snoozed, Stopped, StopReason, Succeeded, TimedOut
from turnstile.worker.broken_handler import MOST_ALIKE, BrokenHandlerWatch
from turnstile.worker.queue_pause import QueuePause

HERE = '  File "handler.py", line 7, in respond\n    1 / 0\n'
THERE = '  File "handler.py", line 9, in respond\n    1 / 0\n'
BUG = Failed("ZeroDivisionError", "division by zero", may_heal=False, traceback=HERE, unforeseen=True)
HANDED_BACK = Stopped(StopReason.BROKEN_HANDLER)
FORESEEN = (
    Succeeded("hi"),
    Snoozed(5.0),
    Joining((UUID(int=9),), JoinPolicy.ALL),
    Failed("Reject", "no", may_heal=False),
    Failed("ConnectionError", "gone", may_heal=True),
)


def turn(number: int) -> ClaimedTurn:
    return replace(CLAIMED, id=UUID(int=number))


def judge_all(watch: BrokenHandlerWatch, *outcomes: Outcome) -> list[Outcome]:
    return [watch.judge(turn(number), outcome) for number, outcome in enumerate(outcomes)]


async def test_the_third_first_turn_with_the_same_error_is_handed_back_and_no_other_begins() -> None:
    pause = QueuePause()
    watch = BrokenHandlerWatch(pause)

    judged = judge_all(watch, *[BUG] * (MOST_ALIKE + 2))

    assert judged == [BUG] * (MOST_ALIKE - 1) + [HANDED_BACK] * 3
    assert (pause.is_on, watch.error_class) == (True, "ZeroDivisionError")


async def test_it_is_said_loudly_once() -> None:
    watch = BrokenHandlerWatch(QueuePause())

    with capture_logs() as lines:
        judge_all(watch, *[BUG] * 10)

    (line,) = [line for line in lines if line["event"] == "worker.handler_broken"]
    assert (line["log_level"], line["error_class"]) == ("critical", "ZeroDivisionError")
    assert line["where"] == 'File "handler.py", line 7, in respond'


@pytest.mark.parametrize("foreseen", FORESEEN)
async def test_one_turn_that_ends_as_foreseen_shows_that_the_handler_works(foreseen: Outcome) -> None:
    pause = QueuePause()
    watch = BrokenHandlerWatch(pause)

    judged = judge_all(watch, BUG, foreseen, *[BUG] * 10)

    assert judged == [BUG, foreseen, *[BUG] * 10]
    assert not pause.is_on


@pytest.mark.parametrize("neutral", [TimedOut(3.0), Stopped(StopReason.CANCELED), Stopped(StopReason.SHUTDOWN)])
async def test_a_turn_that_was_stopped_says_nothing_about_the_handler(neutral: Outcome) -> None:
    watch = BrokenHandlerWatch(QueuePause())

    judged = judge_all(watch, BUG, neutral, BUG, neutral, BUG)

    assert judged == [BUG, neutral, BUG, neutral, HANDED_BACK]


async def test_errors_of_other_classes_or_places_are_not_alike() -> None:
    watch = BrokenHandlerWatch(QueuePause())
    other = replace(BUG, traceback=THERE)
    another = replace(BUG, error_class="KeyError")

    judged = judge_all(watch, BUG, BUG, other, other, another, another, BUG)

    assert HANDED_BACK not in judged


async def test_one_turn_that_fails_again_and_again_says_nothing_about_the_handler() -> None:
    watch = BrokenHandlerWatch(QueuePause())

    judged = [watch.judge(turn(1), BUG) for _ in range(10)]

    assert judged == [BUG] * 10


async def test_a_compensation_says_nothing_about_the_handler() -> None:
    watch = BrokenHandlerWatch(QueuePause())
    compensations = [replace(turn(number), kind=COMPENSATION) for number in range(5)]

    judged = [watch.judge(one, BUG) for one in compensations]

    assert judged == [BUG] * 5


async def test_after_a_while_some_turns_are_tried_and_handed_back_at_the_first_error() -> None:
    pause = QueuePause()
    watch = BrokenHandlerWatch(pause, again_seconds=0.01)
    judge_all(watch, *[BUG] * MOST_ALIKE)
    await until(lambda: not pause.is_on)

    judged = judge_all(watch, replace(BUG, error_class="KeyError", traceback=THERE), BUG)

    assert judged == [HANDED_BACK, HANDED_BACK]
    assert (pause.is_on, watch.error_class) == (True, "KeyError")


async def test_a_broken_handler_that_answers_after_all_works() -> None:
    pause = QueuePause()
    watch = BrokenHandlerWatch(pause)
    judge_all(watch, *[BUG] * MOST_ALIKE)

    with capture_logs() as lines:
        judged = judge_all(watch, Succeeded("hi"), BUG)

    assert judged == [Succeeded("hi"), BUG]
    assert (pause.is_on, watch.error_class) == (False, None)
    assert [line["event"] for line in lines] == ["worker.handler_works"]


async def test_a_handler_that_works_is_not_tried_again() -> None:
    watch, later = BrokenHandlerWatch(QueuePause(), again_seconds=0.01), asyncio.Event()

    with capture_logs() as lines:
        judge_all(watch, *[BUG] * MOST_ALIKE, Succeeded("hi"))
        # Timers fire in their order: the try would come before it.
        asyncio.get_running_loop().call_later(0.02, later.set)
        await later.wait()

    assert "worker.tries_handler_again" not in [line["event"] for line in lines]
