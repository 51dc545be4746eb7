"""`worker.turn_log`: the log lines of a turn's way."""

from dataclasses import replace
from uuid import uuid4

from structlog.contextvars import bound_contextvars
from structlog.testing import capture_logs

from tests.support.factories import CLAIMED
from turnstile.worker.turn_log import report_takeover


def test_a_takeover_names_the_turn_that_was_taken_over_and_not_the_one_of_the_message() -> None:
    turn = replace(CLAIMED, lost_worker="worker-b")

    with bound_contextvars(turn_id=str(uuid4())), capture_logs() as lines:
        report_takeover(turn)

    assert [(line["turn_id"], line["session_id"], line["trace_id"]) for line in lines] == [
        (str(turn.id), turn.session_id, turn.trace_id)
    ]
