"""The watchdog: a stuck loop ends its process, and a process that stood still as a whole goes on."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

import turnstile.worker.lifecycle.watchdog
from turnstile.worker.lifecycle.watchdog import EXIT_STUCK, Watchdog

LIMIT_SECONDS = 60.0
BEAT_SECONDS = 10.0


class Ended(BaseException):
    """Raised in place of the process's end."""


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """As `time.monotonic`."""
        return self.now


def end(code: int) -> None:
    raise Ended(code)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(turnstile.worker.lifecycle.watchdog, "time", clock)
    monkeypatch.setattr(turnstile.worker.lifecycle.watchdog, "os", SimpleNamespace(_exit=end))
    return clock


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def turn(loop: asyncio.AbstractEventLoop) -> None:
    """Runs the loop once."""
    loop.call_soon(loop.stop)
    loop.run_forever()


def look_on(watchdog: Watchdog, clock: Clock) -> None:
    """Looks repeatedly while the loop does not run."""
    for _ in range(100):
        clock.now += BEAT_SECONDS
        watchdog.look()


def test_a_running_loop_goes_on(clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
    watchdog = Watchdog(loop, LIMIT_SECONDS)

    for _ in range(20):
        clock.now += BEAT_SECONDS
        watchdog.look()
        turn(loop)

    assert watchdog.stuck_for() == 0.0


def test_a_stuck_loop_ends_the_process_after_the_limit_and_its_stack_is_written(
    clock: Clock, loop: asyncio.AbstractEventLoop, capfd: pytest.CaptureFixture[str]
) -> None:
    watchdog = Watchdog(loop, LIMIT_SECONDS)
    began = clock.now

    with capture_logs() as logs, pytest.raises(Ended) as ended:
        look_on(watchdog, clock)

    assert ended.value.args == (EXIT_STUCK,)
    [line] = logs
    assert (line["event"], line["log_level"]) == ("watchdog.loop_stuck", "critical")
    assert "MainThread:\n" in line["stacks"]
    assert "in look_on" in line["stacks"]
    assert capfd.readouterr().err == "", "only lines of the log"
    assert clock.now == began + LIMIT_SECONDS + BEAT_SECONDS


def test_a_process_that_stood_still_as_a_whole_goes_on(clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
    watchdog = Watchdog(loop, LIMIT_SECONDS)
    watchdog.look()
    turn(loop)

    clock.now += 3600.0
    watchdog.look()

    assert watchdog.stuck_for() < LIMIT_SECONDS


def test_a_loop_that_stays_stuck_after_a_suspension_ends_the_process(
    clock: Clock, loop: asyncio.AbstractEventLoop
) -> None:
    watchdog = Watchdog(loop, LIMIT_SECONDS)
    clock.now += 3600.0
    watchdog.look()
    woke = clock.now

    with pytest.raises(Ended):
        look_on(watchdog, clock)

    assert clock.now <= woke + LIMIT_SECONDS


def test_a_late_look_excuses_no_time_to_come(clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
    watchdog = Watchdog(loop, LIMIT_SECONDS)
    watchdog.look()
    clock.now += 80.0
    turn(loop)
    clock.now += 10.0

    watchdog.look()

    assert watchdog.stuck_for() == 0.0
