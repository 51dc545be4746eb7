"""The log lines of a turn."""

from dataclasses import replace
from uuid import uuid4

from structlog.contextvars import bound_contextvars
from structlog.testing import capture_logs

from tests.support.factories import CLAIMED
from turnstile.worker.turn_log import report_takeover


def test_a_takeover_is_logged_with_the_turn_that_was_taken_over() -> None:
    turn = replace(CLAIMED, lost_worker="worker-b")

    with bound_contextvars(turn_id=str(uuid4())), capture_logs() as lines:
        report_takeover(turn)

    assert [(line["turn_id"], line["session_id"], line["trace_id"]) for line in lines] == [
        (str(turn.id), turn.session_id, turn.trace_id)
    ]
