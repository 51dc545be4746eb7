"""Frequent events are logged seldom, with their full count."""

import pytest
from structlog.testing import capture_logs

from tests.support.probes import until
from turnstile.producer.http import log_throttle as tally
from turnstile.producer.http.log_throttle import Tally


async def test_the_first_event_is_logged_at_once_and_later_ones_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "SECONDS", 0.1)
    with capture_logs() as logs:
        counted = Tally("it")
        for number in range(1000):
            counted.note(last=number)
        assert [(line["event"], line["count"], line["last"]) for line in logs] == [("it", 1, 0)]

        await until(lambda: len(logs) > 1)
        assert (logs[1]["count"], logs[1]["last"]) == (999, 999)

        # After a quiet second, the next event is logged at once again.
        await until(lambda: counted._next is None)
        counted.note(last=0)
        assert [line["count"] for line in logs] == [1, 999, 1]
