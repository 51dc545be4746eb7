"""When an API process asks the issuer of JWTs for its keys, and what it takes from the answer."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.producer.credentials.conftest import Clock
from tests.support.probes import until
from tests.support.token_issuer import Issuer, make_key, publish
from turnstile.errors import IssuerUnavailableError
from turnstile.producer.credentials.issuer_keys import (
    AWAY_SECONDS,
    FRESH_SECONDS,
    MOST_BYTES,
    PAUSE_SECONDS,
    RETRY_SECONDS,
    IssuerKeys,
    read_keys,
)


@pytest.fixture
async def keys(issuer: Issuer, clock: Clock) -> AsyncIterator[IssuerKeys]:
    async with aiohttp.ClientSession() as http:
        yield IssuerKeys(issuer.url, http, clock)


async def test_concurrent_callers_share_one_request(keys: IssuerKeys, issuer: Issuer) -> None:
    found = await asyncio.gather(*(keys.find("first") for _ in range(20)))

    assert [one is not None and one.key_id for one in found] == ["first"] * 20
    assert issuer.asked == 1


async def test_a_key_that_is_not_known_is_asked_for_once_in_a_while(
    keys: IssuerKeys, issuer: Issuer, clock: Clock
) -> None:
    await keys.find("first")
    assert await keys.find("second") is None
    issuer.published.append(publish(make_key(), "second"))

    clock.now += PAUSE_SECONDS - 0.01
    assert [await keys.find(f"guess-{n}") for n in range(5)] == [None] * 5
    assert issuer.asked == 1
    clock.now += 0.01
    found = await keys.find("second")
    assert found is not None
    assert [await keys.find(f"guess-{n}") for n in range(5)] == [None] * 5
    assert issuer.asked == 2


async def test_a_key_that_the_issuer_has_taken_back_is_forgotten(
    keys: IssuerKeys, issuer: Issuer, clock: Clock
) -> None:
    await keys.find("first")
    issuer.published[:] = [publish(make_key(), "second")]

    clock.now += FRESH_SECONDS - 0.01
    assert await keys.find("first") is not None
    assert issuer.asked == 1
    clock.now += 0.01
    # Nobody waits for this read.
    assert await keys.find("first") is not None

    async def is_gone() -> bool:
        return await keys.find("first") is None

    await until(is_gone)
    assert issuer.asked == 2


async def test_while_the_issuer_is_away_its_keys_stay_valid_for_a_day(
    keys: IssuerKeys, issuer: Issuer, clock: Clock
) -> None:
    await keys.find("first")
    issuer.status = 503

    clock.now += AWAY_SECONDS - 0.01
    assert await keys.find("first") is not None
    clock.now += PAUSE_SECONDS + 0.01
    with pytest.raises(IssuerUnavailableError):
        await keys.find("first")
    issuer.status = 200
    clock.now += PAUSE_SECONDS
    assert await keys.find("first") is not None


async def test_before_the_first_answer_nothing_can_be_said(keys: IssuerKeys, issuer: Issuer, clock: Clock) -> None:
    issuer.status = 500
    for _ in range(3):
        with pytest.raises(IssuerUnavailableError):
            await keys.find("first")
    assert issuer.asked == 1

    issuer.status = 200
    clock.now += RETRY_SECONDS
    assert await keys.find("first") is not None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (302, b""),
        (200, b"[]"),
        (200, b"nonsense"),
        (200, b"[" * 100_000),
        (200, b'{"keys": 1}'),
        (200, b" " * (MOST_BYTES + 1)),
    ],
    ids=["a redirect", "a list", "no JSON", "deep JSON", "no list of keys", "too large"],
)
async def test_an_answer_that_is_no_key_set_is_like_none(
    keys: IssuerKeys, issuer: Issuer, status: int, body: bytes
) -> None:
    issuer.status, issuer.body = status, body

    with pytest.raises(IssuerUnavailableError):
        await keys.find("first")


def test_only_public_keys_for_signatures_are_taken() -> None:
    secret = {"kty": "oct", "kid": "secret", "k": "c2VjcmV0", "alg": "HS256"}
    encryption = {**publish(make_key(), "encryption"), "use": "enc"}
    unknown = {"kty": "new", "kid": "unknown"}
    broken = {"kty": "EC", "kid": "broken", "crv": "P-256", "x": "", "y": ""}
    good = publish(make_key(), "good")

    found = read_keys(json.dumps({"keys": [secret, encryption, unknown, broken, 1, good]}).encode())

    assert [*found] == ["good"]
    with pytest.raises(ValueError, match="no usable key"):
        read_keys(json.dumps({"keys": [secret, encryption]}).encode())
