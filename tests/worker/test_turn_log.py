"""The log lines and the metrics of a claim's end."""

from dataclasses import replace
from typing import cast
from uuid import uuid4

import pytest
from structlog.contextvars import bound_contextvars
from structlog.testing import capture_logs

from tests.support.factories import CLAIMED
from tests.support.metric_readings import rising
from turnstile.handlers.handler import COMPENSATION
from turnstile.statements.claim import EndedAtClaim
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt_observer import SettledAttempt
from turnstile.worker.session_run import SessionRun
from turnstile.worker.turn_log import TurnLog, report_ended, report_settled, report_superseded, report_takeover

SUCCEEDED = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED)
FAILED = Settlement(status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, error_class="Boom")
RETRIED = Settlement(status=TurnStatus.PENDING, outcome=AttemptOutcome.RETRIED, error_class="Boom")


def test_a_takeover_is_logged_with_the_turn_that_was_taken_over() -> None:
    turn = replace(CLAIMED, lost_worker="worker-b")

    with bound_contextvars(turn_id=str(uuid4())), capture_logs() as lines:
        report_takeover(turn)

    assert [(line["turn_id"], line["session_id"], line["trace_id"]) for line in lines] == [
        (str(turn.id), turn.session_id, turn.trace_id)
    ]


@pytest.mark.parametrize(
    ("settlement", "status", "outcome", "error_class"),
    [
        (SUCCEEDED, TurnStatus.SUCCEEDED, "succeeded", ""),
        (FAILED, TurnStatus.FAILED, "failed", "Boom"),
        # A cancel came first, whatever the handler did.
        (FAILED, TurnStatus.CANCELED, "canceled", ""),
    ],
)
def test_an_end_is_counted_by_its_committed_status(
    settlement: Settlement, status: TurnStatus, outcome: str, error_class: str
) -> None:
    ended = {"queue": "turns", "status": status.value, "error_class": error_class}

    with (
        rising("turnstile_turns_ended_total", **ended),
        rising("turnstile_attempt_running_seconds_sum", 2.0, queue="turns", outcome=outcome),
    ):
        report_settled(CLAIMED, status, settlement, 2.0, halts=False)


def ended(reply: object, kind: str = "turn", status: TurnStatus = TurnStatus.SUCCEEDED) -> SettledAttempt:
    settlement = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply=reply)
    return SettledAttempt(
        turn=replace(CLAIMED, kind=kind), settlement=settlement, status=status, reply=None, seconds=1.0, more=False
    )


def test_a_reply_of_none_is_warned_about_once() -> None:
    run, observer = cast("SessionRun", None), TurnLog(halts=False)

    with capture_logs() as lines:
        for attempt in (
            ended("hi"),
            ended(0),
            ended(None, COMPENSATION),
            ended(None, status=TurnStatus.CANCELED),
            ended(None),
            ended(None),
        ):
            observer.settled(run, attempt)

    assert [line["log_level"] for line in lines if line["event"] == "reply.none"] == ["warning"]


def test_a_retry_is_an_attempt_and_not_an_end() -> None:
    with (
        rising("turnstile_attempt_running_seconds_count", queue="turns", outcome="retried"),
        rising("turnstile_turns_ended_total", 0, queue="turns", status="PENDING", error_class=""),
    ):
        report_settled(CLAIMED, TurnStatus.PENDING, RETRIED, 2.0, halts=False)


@pytest.mark.parametrize("halts", [False, True], ids=["dead-lettered", "halted"])
@pytest.mark.parametrize("by", ["its settle", "its claim"])
def test_a_final_failure_is_one_error_line(by: str, halts: bool) -> None:
    with capture_logs() as lines:
        if by == "its settle":
            report_settled(CLAIMED, TurnStatus.FAILED, FAILED, 2.0, halts=halts)
        else:
            ended = EndedAtClaim(uuid4(), "t", "s", 1, "1" * 32, TurnStatus.FAILED, "crash_loop")
            report_ended(ended, "turns", halts=halts)

    errors = [line["event"] for line in lines if line["log_level"] == "error"]
    assert errors == ["turn.halted_session" if halts else "turn.failed"]
    assert "turn.failed" in [line["event"] for line in lines]


def test_what_a_claim_ends_takes_over_or_loses_is_counted() -> None:
    crashed = EndedAtClaim(uuid4(), "t", "s", 1, "1" * 32, TurnStatus.FAILED, "crash_loop")

    with (
        rising("turnstile_turns_ended_total", queue="turns", status="FAILED", error_class="crash_loop"),
        rising("turnstile_takeovers_total", queue="turns"),
        rising("turnstile_superseded_settles_total", queue="turns"),
        rising("turnstile_leases_lost_total", 2, queue="turns"),
    ):
        report_ended(crashed, "turns", halts=False)
        report_takeover(replace(CLAIMED, lost_worker="worker-b"))
        report_takeover(CLAIMED)
        report_superseded(CLAIMED, at_settle=True)
        for _ in range(2):
            report_superseded(CLAIMED, at_settle=False)
