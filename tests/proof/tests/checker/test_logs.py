"""LOGS: what a process says of itself that no fault explains is convicted."""

import pytest

from tests.proof.checker import check
from tests.proof.checker.evidence import Evidence, Fault, Life, LogLine
from tests.proof.tests.checker.conviction import amend, answered, assert_convicts, claims_of
from tests.proof.tests.checker.scene import Scene


def test_logs_a_raw_traceback() -> None:
    evidence = answered().rest()
    text = "Traceback (most recent call last):"
    evidence.logs.append(LogLine(role="api", pid=3, event="(raw)", level="", text=text))

    assert_convicts(evidence, "LOGS", "api 3 wrote a raw traceback", None)


def test_logs_a_mistake_that_no_fault_explains() -> None:
    scene = answered().log("consumer.failed", None, level="error", exception="Traceback ...\nKeyError: 'x'")
    scene.evidence.faults.append(Fault(at=0.0, until=1e9, kind="postgres down", target="pg"))

    assert_convicts(scene.rest(), "LOGS", "KeyError: 'x'", None)


def log_of_an_outage(*faults: Fault) -> Evidence:
    exception = "Traceback ...\npsycopg.OperationalError: the connection is closed"
    scene = answered().log(
        "heartbeat.failed", None, level="error", exception=exception, timestamp="1970-01-01T00:01:40Z"
    )
    scene.evidence.faults += faults
    return scene.rest()


def test_logs_an_outage_that_was_none() -> None:
    assert_convicts(log_of_an_outage(), "LOGS", "heartbeat.failed", None)


def test_logs_an_outage_long_before_the_line() -> None:
    evidence = log_of_an_outage(Fault(at=10.0, until=20.0, kind="postgres down", target="pg"))

    assert_convicts(evidence, "LOGS", "heartbeat.failed", None)


def test_logs_an_outage_that_the_nemesis_made_convicts_nobody() -> None:
    assert check(log_of_an_outage(Fault(at=99.0, until=101.0, kind="postgres down", target="pg"))) == []


def test_logs_an_alarm_without_a_fault() -> None:
    assert_convicts(
        answered().log("worker.part_ended", None, level="critical").rest(), "LOGS", "worker.part_ended", None
    )


def test_logs_a_process_that_died_by_itself() -> None:
    evidence = answered().rest()
    evidence.lives.append(Life(at=1.0, role="relay", pid=9, what="ended", code=1, meant=False))

    assert_convicts(evidence, "LOGS", "relay 9 ended by itself with code 1", None)


@pytest.mark.parametrize(("blocked", "convicted"), [(7, False), (8, True)])
def test_logs_a_stuck_loop_is_explained_by_a_handler_that_blocks_it_in_that_process(
    blocked: int, convicted: bool
) -> None:
    scene = Scene().submit(content={"do": "block", "seconds": 9}).claim()
    amend(scene.evidence.runs, lambda run: True, pid=blocked)
    evidence = scene.log("watchdog.loop_stuck", None, level="critical").settle().rest()

    assert bool(claims_of(evidence, "LOGS", None)) is convicted


def test_logs_a_line_by_a_shifted_clock_may_belong_to_any_fault() -> None:
    scene = answered().log("worker.part_ended", None, level="critical", timestamp="1970-01-01T01:01:40Z")
    scene.evidence.faults.append(Fault(at=99.0, until=101.0, kind="worker-clock-shifted", target="w"))

    assert check(scene.rest()) == []
