"""What is counted of a request whose client leaves before the response."""

from typing import Any, cast

from tests.support.metric_readings import rising
from turnstile.producer.http.request_metrics import RequestMetrics


async def test_a_request_without_a_response_has_code_0() -> None:
    async def leave(*_: Any) -> None:
        return

    with rising("turnstile_http_requests_total", route="none", method="GET", code="0"):
        await RequestMetrics(leave)({"type": "http", "method": "GET"}, cast("Any", None), cast("Any", None))
