"""Rate limits: which requests count together, what a refused one is told, and what holds while Redis is away."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx import AsyncClient, Response
from structlog.testing import capture_logs

from tests.producer.api.conftest import Connect, call
from tests.producer.api.expectations import expect_problem
from tests.producer.api.network_faults import Cable, at_port
from tests.support.metric_readings import rising
from turnstile.config.rate_rules import RateRule
from turnstile.config.settings import Settings
from turnstile.producer.app import create_app
from turnstile.producer.routes import error_handlers

PATH = "/v1/sessions/{}/turns"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_handlers, "REFUSAL_SECONDS", 0.0)


def rule(name: str = "few", **fields: Any) -> RateRule:
    """Two requests of a tenant in a window that lasts longer than a test."""
    return RateRule.model_validate({"name": name, "per": "tenant", "limit": 2, "seconds": 600, **fields})


def with_rules(settings: Settings, *rules: RateRule) -> Settings:
    return settings.model_copy(update={"rates": rules})


async def submits(client: AsyncClient, count: int, session: str = "s") -> list[Response]:
    return [await client.post(PATH.format(session), json={"input": "x"}) for _ in range(count)]


def statuses(answers: list[Response]) -> list[int]:
    return [answer.status_code for answer in answers]


async def test_without_rules_no_response_mentions_a_limit(client: AsyncClient) -> None:
    [answer] = await submits(client, 1)

    assert not [name for name in answer.headers if name.startswith("ratelimit")]


@pytest.mark.parametrize("window", ["sliding", "fixed"])
async def test_a_response_says_how_many_requests_are_left(settings: Settings, connect: Connect, window: str) -> None:
    async with connect(with_rules(settings, rule(window=window))) as client:
        answers = await submits(client, 2)

    assert [answer.headers["ratelimit-policy"] for answer in answers] == ['"few";q=2;w=600'] * 2
    assert [answer.headers["ratelimit"].partition(";t=")[0] for answer in answers] == ['"few";r=1', '"few";r=0']


async def test_a_request_too_many_is_refused_and_told_when_to_come_again(settings: Settings, connect: Connect) -> None:
    async with connect(with_rules(settings, rule())) as client:
        await submits(client, 2)
        with rising("turnstile_rate_limited_total", rule="few"), capture_logs() as logs:
            [refused] = await submits(client, 1)

    expect_problem(refused, 429, "rate-limited")
    assert 0 < int(refused.headers["retry-after"]) <= 600
    assert refused.headers["ratelimit"] == f'"few";r=0;t={refused.headers["retry-after"]}'
    assert "2 requests in 600 s are allowed per tenant (few)" in refused.json()["detail"]
    assert [line["rule"] for line in logs if line["event"] == "api.rate_limited"] == ["few"]


async def test_another_tenant_is_counted_apart(settings: Settings) -> None:
    app = create_app(with_rules(settings, rule()))
    async with app.router.lifespan_context(app), call(app) as acme, call(app, "globex") as globex:
        assert statuses(await submits(acme, 3)) == [202, 202, 429]
        assert statuses(await submits(globex, 2)) == [202, 202]


async def test_a_rule_for_submits_does_not_count_other_requests(settings: Settings, connect: Connect) -> None:
    async with connect(with_rules(settings, rule(calls="submits"))) as client:
        reads = [await client.get("/v1/turns") for _ in range(3)]
        assert statuses(reads) == [200] * 3
        assert "ratelimit" not in reads[0].headers
        assert statuses(await submits(client, 3)) == [202, 202, 429]


async def test_a_rule_for_all_counts_every_request_under_v1_and_no_probe(settings: Settings, connect: Connect) -> None:
    async with connect(with_rules(settings, rule())) as client:
        calls = [await client.get("/v1/turns"), await client.get("/v1/none"), await client.get("/v1/turns")]
        probes = [await client.get("/healthz") for _ in range(3)]

    assert statuses(calls) == [200, 404, 429]
    assert statuses(probes) == [200] * 3


async def test_a_rule_for_sessions_counts_each_session_of_a_tenant_apart(settings: Settings) -> None:
    app = create_app(with_rules(settings, rule(per="session")))
    async with app.router.lifespan_context(app), call(app) as acme, call(app, "globex") as globex:
        assert statuses(await submits(acme, 3, "loud")) == [202, 202, 429]
        assert (await acme.post("/v1/sessions/loud/cancel")).status_code == 429
        assert (await acme.get("/v1/sessions/loud")).status_code == 429
        assert statuses(await submits(acme, 1, "quiet")) == [202]
        assert statuses(await submits(globex, 1, "loud")) == [202]
        assert statuses([await acme.get("/v1/turns") for _ in range(3)]) == [200] * 3


async def test_a_rule_for_keys_counts_each_key_of_a_tenant_apart(settings: Settings) -> None:
    second = "acme-key-3"
    keys = {"api_keys": (*settings.api_keys, ("acme", second))}
    app = create_app(with_rules(settings, rule(per="key")).model_copy(update=keys))
    async with app.router.lifespan_context(app), call(app) as client:
        assert statuses(await submits(client, 3)) == [202, 202, 429]
        client.headers["Authorization"] = f"Bearer {second}"
        assert statuses(await submits(client, 3)) == [202, 202, 429]


async def test_a_session_that_floods_does_not_spend_the_requests_of_its_tenant(
    settings: Settings, connect: Connect
) -> None:
    rules = rule("of-tenant", limit=4), rule("of-session", per="session")
    async with connect(with_rules(settings, *rules)) as client:
        assert statuses(await submits(client, 5, "loud")) == [202, 202, 429, 429, 429]
        [answer] = await submits(client, 1, "quiet")

    assert answer.status_code == 202
    assert answer.headers["ratelimit-policy"] == '"of-session";q=2;w=600, "of-tenant";q=4;w=600'
    assert [item.partition(";t=")[0] for item in answer.headers["ratelimit"].split(", ")] == [
        '"of-session";r=1',
        '"of-tenant";r=1',
    ]


async def test_a_request_without_a_key_is_not_counted(settings: Settings) -> None:
    app = create_app(with_rules(settings, rule()))
    async with app.router.lifespan_context(app), call(app) as client:
        stranger = await client.get("/v1/turns", headers={"Authorization": "Bearer wrong-key"})
        assert stranger.status_code == 401
        assert "ratelimit" not in stranger.headers
        assert statuses(await submits(client, 2)) == [202, 202]


async def test_a_refused_request_is_answered_before_its_body_is_read(settings: Settings, connect: Connect) -> None:
    read = False

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        read = True
        yield b'{"input": "x"}'

    async with connect(with_rules(settings, rule())) as client:
        await submits(client, 2)
        refused = await client.post(PATH.format("s"), content=body(), headers={"Content-Type": "application/json"})

    expect_problem(refused, 429, "rate-limited")
    assert not read


async def test_a_refusal_is_held_back_while_connections_are_free(
    settings: Settings, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that repeats a refused request at once would otherwise keep the process busy with refusals."""
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    async with connect(with_rules(settings, rule())) as client:
        await submits(client, 2)
        monkeypatch.setattr(error_handlers, "REFUSAL_SECONDS", 2.0)
        monkeypatch.setattr(error_handlers.asyncio, "sleep", note)
        await submits(client, 1)

    assert waits == [2.0]


async def test_processes_share_their_counts(settings: Settings, connect: Connect) -> None:
    limited = with_rules(settings, rule())
    async with connect(limited) as one, connect(limited) as other:
        assert statuses([*await submits(one, 1), *await submits(other, 2)]) == [202, 202, 429]


async def test_while_redis_is_away_a_process_counts_by_itself(
    settings: Settings, redis_cable: Cable, connect: Connect
) -> None:
    url = at_port(settings.redis_url, redis_cable.port)
    limited = with_rules(settings, rule()).model_copy(update={"memory_redis_url": url})
    async with connect(limited) as client:
        await redis_cable.cut()
        answers = await submits(client, 3)

    assert statuses(answers) == [202, 202, 429]
    assert answers[0].headers["ratelimit"].startswith('"few";r=1;')
