"""What an API process counts: requests by the template of their route, submits by their result, open streams."""

import pytest
from httpx import AsyncClient

from tests.producer.api.conftest import Connect
from tests.producer.api.conversation import Conversation
from tests.support.metric_readings import reading, rising
from tests.support.probes import until
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.telemetry.instruments import REGISTRY

REQUESTS = "turnstile_http_requests_total"
SUBMITTED = "turnstile_turns_submitted_total"
SUBMIT = "/v1/sessions/{session_id}/turns"


async def test_a_submit_is_counted_by_its_result(client: AsyncClient, settings: Settings) -> None:
    keyed = {"Idempotency-Key": "7"}
    expected = {"accepted": 1, "repeated": 1, "refused": 2, "failed": 0}
    before = {result: reading(SUBMITTED, queue=settings.queue, result=result) or 0 for result in expected}

    for body, headers in (
        ({"input": "one"}, keyed),
        ({"input": "one"}, keyed),
        ({"input": "two"}, keyed),
        ({"input": "two", "on_busy": "reject"}, {}),
        ({"input": "two", "queue": "undeclared"}, {}),
    ):
        await client.post("/v1/sessions/s/turns", json=body, headers=headers)

    after = {result: reading(SUBMITTED, queue=settings.queue, result=result) or 0 for result in expected}
    assert {result: after[result] - before[result] for result in expected} == expected
    assert reading(SUBMITTED, queue="undeclared", result="refused") is None


async def test_accepted_turns_are_0_from_the_start_for_each_declared_queue(
    settings: Settings, connect: Connect
) -> None:
    """An API that has accepted nothing since its deployment has a broken producer: without a series no alert would fire."""
    queues = tuple(QueueSettings(name=f"{settings.queue}-{place}") for place in ("first", "second"))

    async with connect(settings.model_copy(update={"queues": queues})):
        assert [reading(SUBMITTED, queue=one.name, result="accepted") for one in queues] == [0, 0]


async def test_a_submit_is_counted_and_timed_by_its_route(client: AsyncClient) -> None:
    with (
        rising(REQUESTS, route=SUBMIT, method="POST", code="202"),
        rising(REQUESTS, route=SUBMIT, method="POST", code="422"),
        rising("turnstile_http_request_seconds_count", 2, route=SUBMIT),
    ):
        await client.post("/v1/sessions/s/turns", json={"input": "hi"})
        await client.post("/v1/sessions/s/turns", json={})


@pytest.mark.parametrize(
    ("method", "path", "route", "word", "code"),
    [
        ("GET", "/v1/turns/00000000-0000-7000-8000-000000000000", "/v1/turns/{turn_id}", "GET", "404"),
        ("GET", "/v1/sessions/nobody/messages", "/v1/sessions/{session_id}/messages", "GET", "404"),
        ("GET", "/healthz", "/healthz", "GET", "200"),
        ("GET", "/v1/no/such/path", "none", "GET", "404"),
        ("BREW", "/v1/no/such/path", "none", "other", "404"),
    ],
)
async def test_a_path_is_counted_by_its_template_and_never_by_itself(
    client: AsyncClient, method: str, path: str, route: str, word: str, code: str
) -> None:
    with rising(REQUESTS, route=route, method=word, code=code):
        await client.request(method, path)

    labels = [sample.labels for family in REGISTRY.collect() for sample in family.samples]
    assert not [one for one in labels if path in one.values() and path != route]


async def test_streams_are_counted_while_they_are_open(talk: Conversation) -> None:
    before = reading("turnstile_streams_open") or 0
    turn = await talk.submit()
    heard, following = talk.follow(turn)
    await until(lambda: heard.events)

    assert (reading("turnstile_streams_open") or 0) - before == 1

    talk.work(turn)
    talk.script.reply("done")
    await following
    await until(lambda: (reading("turnstile_streams_open") or 0) == before)
