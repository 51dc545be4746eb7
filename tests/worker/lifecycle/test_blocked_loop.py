"""A handler that blocks the event loop is named with its stack while the block lasts; nothing else is."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import structlog.testing

import turnstile.worker.lifecycle.blocked_loop
from tests.support.factories import CLAIMED
from tests.support.metric_readings import rising
from tests.support.probes import stand_still, wait_until
from tests.worker.attempt.attempts import THREADS, Bench
from turnstile.handlers.context import Context, Turn
from turnstile.worker.attempt.outcome import Succeeded
from turnstile.worker.lifecycle.blocked_loop import BLOCKED_SECONDS, LINE_SECONDS, LOOK_SECONDS, BlockedLoopWatch

SECRET = "what the user has said"


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


# --- a real loop, a real thread


async def test_a_handler_that_blocks_is_named_while_it_blocks_and_its_values_are_not(logs: list[Any]) -> None:
    watch = BlockedLoopWatch(asyncio.get_running_loop(), "turns")
    blocked_by = []

    async def compute(turn: Turn, _: Context) -> str:
        said = SECRET
        wait_until(lambda: logs)
        blocked_by.append(watch.blocked_by())
        return said

    watch.start()
    with ThreadPoolExecutor(THREADS) as pool:
        assert await Bench(pool).outcome_of(compute) == Succeeded(SECRET)
    watch.stop()

    assert (blocked_by, watch.blocked_by()) == ([CLAIMED.id], None)
    [line] = logs
    assert (line["event"], line["log_level"], line["blocks"]) == ("worker.loop_blocked", "warning", 1)
    assert (line["turn_id"], line["trace_id"]) == (str(CLAIMED.id), CLAIMED.trace_id)
    assert BLOCKED_SECONDS <= line["seconds"] < 30
    # It begins with the handler: above it are the frames of the command line, the event loop and the attempt.
    assert line["stack"].startswith(f'  File "{__file__}", line ')
    assert line["stack"].splitlines()[0].endswith(", in compute")
    assert "in compute\n    wait_until(lambda: logs)" in line["stack"]
    assert SECRET not in str(line)


async def test_a_block_outside_of_an_attempt_is_named_without_a_turn(logs: list[Any]) -> None:
    task = asyncio.current_task()
    assert task is not None
    # As many words as the name of a handler's task.
    task.set_name("not a handler")
    watch = BlockedLoopWatch(asyncio.get_running_loop(), "turns")
    watch.start()

    wait_until(lambda: logs)

    watch.stop()
    assert "turn_id" not in logs[0]
    assert "test_a_block_outside_of_an_attempt" in logs[0]["stack"]


async def test_a_handler_that_blocks_in_its_thread_blocks_no_loop(logs: list[Any]) -> None:
    def compute(turn: Turn, _: Context) -> str:
        stand_still(BLOCKED_SECONDS + 3 * LOOK_SECONDS)
        return "done"

    watch = BlockedLoopWatch(asyncio.get_running_loop(), "turns")
    watch.start()
    with ThreadPoolExecutor(THREADS) as pool:
        assert await Bench(pool).outcome_of(compute) == Succeeded("done")
    watch.stop()

    assert [line for line in logs if line["event"] == "worker.loop_blocked"] == []


async def test_a_defect_of_a_look_does_not_end_the_watch(logs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    watch = BlockedLoopWatch(asyncio.get_running_loop(), "turns")
    looks: list[None] = []

    def fail() -> None:
        looks.append(None)
        raise ValueError

    monkeypatch.setattr(watch, "look", fail)
    watch.start()

    wait_until(lambda: len(looks) > 1)

    watch.stop()
    assert logs[0]["event"] == "worker.blocked_loop_watch_failed"


def test_the_thread_ends_with_the_loop() -> None:
    loop = asyncio.new_event_loop()
    watch = BlockedLoopWatch(loop, "turns")
    watch.start()

    loop.close()

    wait_until(lambda: not watch._thread.is_alive())


# --- by a clock


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """As `time.monotonic`."""
        return self.now


class Rig:
    """A watch whose looks the test makes."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = clock
        self._loop = loop
        self.watch = BlockedLoopWatch(loop, "turns")

    def look_for(self, seconds: float, *, blocked: bool) -> None:
        """Looks for so long."""
        for _ in range(round(seconds / LOOK_SECONDS)):
            self.clock.now += LOOK_SECONDS
            self.watch.look()
            if not blocked:
                self._loop.call_soon(self._loop.stop)
                self._loop.run_forever()


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    clock = Clock()
    monkeypatch.setattr(turnstile.worker.lifecycle.blocked_loop, "time", clock)
    loop = asyncio.new_event_loop()
    rig = Rig(clock, loop)
    rig.look_for(1.0, blocked=False)
    yield rig
    loop.close()


def test_a_loop_that_answers_is_not_named(rig: Rig, logs: list[Any]) -> None:
    rig.look_for(10.0, blocked=False)

    assert logs == []


def test_a_block_of_less_than_a_second_is_not_named(rig: Rig, logs: list[Any]) -> None:
    rig.look_for(BLOCKED_SECONDS - LOOK_SECONDS, blocked=True)
    rig.look_for(1.0, blocked=False)

    assert logs == []


def test_a_block_of_less_than_a_second_is_not_counted(rig: Rig) -> None:
    rig.look_for(BLOCKED_SECONDS - LOOK_SECONDS, blocked=True)

    with rising("turnstile_event_loop_blocked_seconds_total", 0, queue="turns"):
        rig.look_for(1.0, blocked=False)


def test_a_block_has_one_line_however_long_it_lasts(rig: Rig, logs: list[Any]) -> None:
    rig.look_for(LINE_SECONDS * 3, blocked=True)

    assert [(line["seconds"], line["blocks"]) for line in logs] == [(BLOCKED_SECONDS, 1)]


def test_blocks_in_a_row_have_a_line_a_minute_that_counts_them(rig: Rig, logs: list[Any]) -> None:
    for _ in range(40):
        rig.look_for(2.0, blocked=True)
        rig.look_for(1.0, blocked=False)

    assert [line["blocks"] for line in logs] == [1, 20]


def test_a_block_of_over_a_second_is_reported_until_the_loop_answers(rig: Rig) -> None:
    rig.look_for(BLOCKED_SECONDS - LOOK_SECONDS, blocked=True)
    before = rig.watch.blocked_for()
    rig.look_for(10.0, blocked=True)
    meanwhile = rig.watch.blocked_for()
    rig.look_for(LOOK_SECONDS, blocked=False)

    assert (before, meanwhile, rig.watch.blocked_for()) == (0.0, pytest.approx(11.0, abs=2 * LOOK_SECONDS), 0.0)


def test_a_block_is_counted_while_it_lasts(rig: Rig) -> None:
    """The watchdog ends the process in a long one."""
    with rising("turnstile_event_loop_blocked_seconds_total", pytest.approx(28.0, abs=2 * LOOK_SECONDS), queue="turns"):
        rig.look_for(28.0, blocked=True)


def test_a_block_is_counted_once(rig: Rig) -> None:
    with rising("turnstile_event_loop_blocked_seconds_total", pytest.approx(10.0, abs=4 * LOOK_SECONDS), queue="turns"):
        for _ in range(2):
            rig.look_for(5.0, blocked=True)
            rig.look_for(1.0, blocked=False)


def test_a_process_that_stood_still_as_a_whole_was_not_blocked(rig: Rig, logs: list[Any]) -> None:
    rig.look_for(LOOK_SECONDS, blocked=True)
    rig.clock.now += 3600.0
    rig.look_for(LOOK_SECONDS, blocked=True)
    rig.look_for(1.0, blocked=False)

    assert logs == []
