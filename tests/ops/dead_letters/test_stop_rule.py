"""Whether a redrive goes on: a pure function of how the turns put back have ended."""

from collections import Counter
from typing import Any

import pytest

from turnstile.ops.dead_letters.stop_rule import LEAST_ENDED, Ends, GoOn, Stop, Wait, judge_canary, judge_ends


def ends(succeeded: int = 0, failed: int = 0, open: int = 0, **more: int) -> Ends:  # noqa: A002
    return Ends(succeeded=succeeded, failed=Counter(timeout=failed) if failed else Counter(), open=open, **more)


@pytest.mark.parametrize(
    ("canary", "time_is_up", "verdict"),
    [
        (ends(succeeded=10), False, GoOn),
        (ends(succeeded=9, failed=1), False, GoOn),
        (ends(succeeded=9, open=1), False, GoOn),
        (ends(succeeded=8, failed=1, open=1), False, Wait),
        (ends(succeeded=8, failed=1, open=1), True, Stop),
        (ends(failed=2, open=8), False, Stop),
        (ends(canceled=2, open=8), False, Stop),
        (ends(open=10), False, Wait),
        (ends(open=10), True, Stop),
    ],
)
def test_a_canary_is_decided_as_soon_as_its_result_is_certain(canary: Ends, time_is_up: bool, verdict: Any) -> None:
    assert isinstance(judge_canary(canary, time_is_up=time_is_up), verdict)


def test_the_reason_says_what_failed_and_how() -> None:
    canary = Ends(succeeded=7, failed=Counter(timeout=2, ValueError=1))

    assert judge_canary(canary, time_is_up=False) == Stop(
        "the canary failed: 7 succeeded, 3 failed again (timeout 2, ValueError 1); at least 9 of 10 must succeed"
    )


@pytest.mark.parametrize(
    ("lately", "verdict"),
    [
        (ends(succeeded=LEAST_ENDED), GoOn),
        (ends(failed=LEAST_ENDED - 1), GoOn),
        (ends(failed=LEAST_ENDED), Stop),
        (ends(succeeded=6, failed=5), GoOn),
        (ends(succeeded=5, failed=5), Stop),
        (ends(succeeded=2, failed=2, canceled=10), GoOn),
    ],
)
def test_a_redrive_stops_when_half_of_the_turns_that_ended_last_have_failed(lately: Ends, verdict: Any) -> None:
    assert isinstance(judge_ends(lately), verdict)
