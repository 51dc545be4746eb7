"""Paths that need no key: for everybody, but of an API without keys for this machine alone, and no website reads them there."""

from uuid import uuid4

import pytest

from tests.producer.api.conftest import OpenApi
from tests.producer.api.expectations import expect_problem, expect_unavailable
from tests.support.probes import until
from tests.support.stored_keys import store_key
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.table_version import MISSING

PATHS = ["/docs", "/docs/start.js", "/openapi.json", "/healthz", "/readyz"]
WEBSITES = [{"Host": "rebound.example"}, {"Origin": "https://evil.example"}]
NOBODY = f"tsk_{uuid4().hex[:16]}_{'x' * 43}"
"""What looks like a key."""


@pytest.mark.parametrize("path", PATHS)
async def test_no_website_reads_what_an_api_without_keys_says(unconfigured: OpenApi, path: str) -> None:
    async with unconfigured() as client:
        own = await client.get(path, headers={"Origin": "http://localhost:3000"})
        refused = [await client.get(path, headers=headers) for headers in WEBSITES]

    assert own.status_code == 200
    for answer in refused:
        expect_problem(answer, 421, "not-local")


async def test_behind_a_proxy_of_this_machine_an_api_with_keys_has_any_name(
    unconfigured: OpenApi, database: Database
) -> None:
    await store_key(database)

    async with unconfigured() as client:
        answers = [await client.get(path, headers=headers) for path in PATHS for headers in WEBSITES]

    assert {answer.status_code for answer in answers} == {200}


async def test_an_api_that_serves_strangers_by_its_flag_serves_these_too(unconfigured: OpenApi) -> None:
    async with unconfigured("0.0.0.0", called="api.example", api_serves_strangers_without_keys=True) as client:  # noqa: S104
        assert (await client.get("/healthz")).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104
async def test_a_stranger_does_not_learn_what_ails_the_database(
    unconfigured: OpenApi, bare_url: str, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setattr("turnstile.producer.app.DATABASE_WAIT_SECONDS", 0.5)

    async with unconfigured(host, called="api.example", database_url=bare_url) as client:

        async def is_known() -> bool:
            answer = await client.get("/v1/turns", headers={"Authorization": f"Bearer {NOBODY}"})
            expect_unavailable(answer)
            return bool(answer.json()["detail"] == "keys can't be checked now; try again after `Retry-After` seconds")

        assert await until(is_known)
        open_paths = [await client.get(path) for path in ("/healthz", "/readyz")]

    assert not [answer.text for answer in open_paths if "turnstile" in answer.text]


async def test_a_developer_of_this_machine_does(
    unconfigured: OpenApi, bare_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.producer.app.DATABASE_WAIT_SECONDS", 0.5)

    async with unconfigured(database_url=bare_url) as client:

        async def says_so() -> bool:
            return bool((await client.get("/v1/turns")).json()["detail"] == MISSING)

        assert await until(says_so)
