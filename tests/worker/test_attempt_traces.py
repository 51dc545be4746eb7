"""An attempt's span is linked to the attempt before it, and is exported without the link if that can't be read."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from tests.support.factories import CLAIMED
from tests.support.probes import until
from tests.support.session_runs import new_run
from turnstile.errors import DatabaseUnavailableError
from turnstile.turn.identifiers import TraceContext
from turnstile.worker.attempt_traces import AttemptTraces


class Span:
    """A recorded span that notes its links."""

    is_recorded = True

    def __init__(self) -> None:
        self.links: list[TraceContext | None] = []

    def await_link(self) -> None:
        return

    def link(self, earlier: TraceContext | None) -> None:
        self.links.append(earlier)


@pytest.mark.parametrize("error", [DatabaseUnavailableError("away"), KeyError("what the user said")])
async def test_a_look_up_that_fails_is_one_line_without_its_text_and_the_span_has_no_link(
    error: Exception,
) -> None:
    async def fetch(*_: Any) -> list[Any]:
        raise error

    span = Span()
    spans: Any = SimpleNamespace(begin_attempt=lambda *_: span)

    with capture_logs() as lines:
        traces = AttemptTraces(spans, "turns", cast("Any", SimpleNamespace(fetch=fetch)))
        traces.claimed(new_run(), replace(CLAIMED, generation=2), None)
        await until(lambda: span.links)

    assert span.links == [None]
    assert [(line["event"], line["error_class"]) for line in lines] == [("tracing.not_linked", type(error).__name__)]
    assert "said" not in repr(lines)
