"""Which JWTs are accepted, and whose they are."""

import base64
import hmac
import json
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import aiohttp
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.support.token_issuer import AUDIENCE, ISSUER, RSA, Issuer, make_key, publish
from turnstile.access.caller import Caller
from turnstile.access.role import Role
from turnstile.config.jwt_settings import JwtSettings
from turnstile.producer.credentials.issuer_keys import IssuerKeys
from turnstile.producer.credentials.jwts import LEEWAY_SECONDS, Jwts, looks_like_jwt
from turnstile.producer.credentials.refusal import Reason, Refused

UNKNOWN = Refused(Reason.UNKNOWN)


def at_present(claims: dict[str, Any]) -> dict[str, Any]:
    """The claims, with each time counted from now. So no test has the time of its collection in its name."""
    now = int(time.time())
    return {
        name: now + int(value.total_seconds()) if isinstance(value, timedelta) else value
        for name, value in claims.items()
    }


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
def jwts(issuer: Issuer, http: aiohttp.ClientSession) -> Jwts:
    return make_jwts(issuer, http)


def make_jwts(issuer: Issuer, http: aiohttp.ClientSession, **fields: Any) -> Jwts:
    given = {"issuer": ISSUER, "audience": AUDIENCE, "jwks_url": issuer.url, **fields}
    return Jwts(JwtSettings.model_validate(given), IssuerKeys(issuer.url, http))


async def test_a_token_says_tenant_and_role_and_its_subject_is_not_named(jwts: Jwts, issuer: Issuer) -> None:
    found = [await jwts.check(issuer.sign(sub=subject)) for subject in ("ada@example.com", "ada@example.com", "bob")]

    callers = [one for one in found if isinstance(one, Caller)]
    assert [(one.tenant_id, one.role) for one in callers] == [("acme", Role.SUBMIT)] * 3
    assert callers[0].key_id == callers[1].key_id != callers[2].key_id
    assert "ada" not in str(callers)


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
async def test_each_algorithm_of_the_settings_is_accepted_and_no_other(
    issuer: Issuer, http: aiohttp.ClientSession, algorithm: str
) -> None:
    key = make_key(algorithm)
    issuer.published[:] = [publish(key, "k", algorithm)]
    token = issuer.sign("k", algorithm, key=key)
    other = "ES384" if algorithm != "ES384" else "ES256"

    assert isinstance(await make_jwts(issuer, http, algorithms=[algorithm]).check(token), Caller)
    assert await make_jwts(issuer, http, algorithms=[other]).check(token) == UNKNOWN


def encode(part: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


async def test_a_token_without_a_signature_is_refused(jwts: Jwts, issuer: Issuer) -> None:
    claims = jwt.decode(issuer.sign(), options={"verify_signature": False})

    for algorithm in ("none", "None", "NONE", ""):
        assert await jwts.check(f"{encode({'alg': algorithm, 'kid': 'first'})}.{encode(claims)}.") == UNKNOWN
    assert issuer.asked == 0


async def test_a_public_key_is_never_taken_for_a_shared_secret(issuer: Issuer, http: aiohttp.ClientSession) -> None:
    issuer.published[:] = [publish(RSA, "k", "RS256")]
    public = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    claims = encode(jwt.decode(issuer.sign(), options={"verify_signature": False}))
    signed = f"{encode({'alg': 'HS256', 'kid': 'k'})}.{claims}"
    mac = base64.urlsafe_b64encode(hmac.digest(public, signed.encode(), "sha256"))

    assert await make_jwts(issuer, http).check(f"{signed}.{mac.decode().rstrip('=')}") == UNKNOWN


async def test_a_token_whose_algorithm_is_not_that_of_its_key_is_refused(
    issuer: Issuer, http: aiohttp.ClientSession
) -> None:
    issuer.published[:] = [publish(RSA, "k", "RS256")]
    jwts = make_jwts(issuer, http, algorithms=["RS256", "PS256"])

    assert isinstance(await jwts.check(issuer.sign("k", "RS256", key=RSA)), Caller)
    assert await jwts.check(issuer.sign("k", "PS256", key=RSA)) == UNKNOWN


@pytest.mark.parametrize(
    ("claims", "refused"),
    [
        ({"iss": "https://other.example/"}, UNKNOWN),
        ({"iss": None}, UNKNOWN),
        ({"aud": "another"}, UNKNOWN),
        ({"aud": None}, UNKNOWN),
        ({"exp": None}, UNKNOWN),
        ({"exp": "soon"}, UNKNOWN),
        ({"sub": None}, UNKNOWN),
        ({"sub": 7}, UNKNOWN),
        ({"exp": timedelta(seconds=-LEEWAY_SECONDS - 60)}, Refused(Reason.EXPIRED)),
        ({"nbf": timedelta(seconds=LEEWAY_SECONDS + 600)}, UNKNOWN),
        ({"tenant": None}, Refused(Reason.NO_TENANT)),
        ({"tenant": ".acme"}, Refused(Reason.NO_TENANT)),
        ({"tenant": ["acme"]}, Refused(Reason.NO_TENANT)),
        ({"role": None}, Refused(Reason.NO_ROLE)),
        ({"role": "owner"}, Refused(Reason.NO_ROLE)),
        ({"role": {"submit": True}}, Refused(Reason.NO_ROLE)),
    ],
    ids=str,
)
async def test_a_claim_that_is_wrong_or_missing_is_refused(
    jwts: Jwts, issuer: Issuer, claims: dict[str, Any], refused: Refused
) -> None:
    assert await jwts.check(issuer.sign(**at_present(claims))) == refused


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["other", AUDIENCE]},
        {"exp": timedelta(seconds=-LEEWAY_SECONDS // 2)},
        {"nbf": timedelta(seconds=LEEWAY_SECONDS // 2)},
    ],
    ids=["one audience of several", "expired within the leeway", "not yet valid, within the leeway"],
)
async def test_clocks_may_differ_a_little(jwts: Jwts, issuer: Issuer, claims: dict[str, Any]) -> None:
    assert isinstance(await jwts.check(issuer.sign(**at_present(claims))), Caller)


@pytest.mark.parametrize(
    ("claim", "role"),
    [
        ("read", Role.READ),
        ("openid operate read", Role.OPERATE),
        (["read", 7, "submit"], Role.SUBMIT),
        (["admin"], Role.ADMIN),
    ],
    ids=str,
)
async def test_the_highest_role_counts(jwts: Jwts, issuer: Issuer, claim: Any, role: Role) -> None:
    found = await jwts.check(issuer.sign(role=claim))
    assert isinstance(found, Caller)
    assert found.role is role


async def test_the_settings_say_which_claims_and_values_mean_what(issuer: Issuer, http: aiohttp.ClientSession) -> None:
    jwts = make_jwts(issuer, http, tenant_claim="org", role_claim="scope", roles={"chat.write": "submit"})

    found = await jwts.check(issuer.sign(org="globex", scope="chat.write admin"))

    assert isinstance(found, Caller)
    assert (found.tenant_id, found.role) == ("globex", Role.SUBMIT)


async def test_a_token_of_another_key_or_a_changed_one_is_refused(jwts: Jwts, issuer: Issuer) -> None:
    head, claims, signature = issuer.sign().split(".")
    changed = encode({**jwt.decode(issuer.sign(), options={"verify_signature": False}), "tenant": "globex"})

    for token in (
        issuer.sign(key=make_key()),
        issuer.sign("absent"),
        issuer.sign(None),
        f"{head}.{changed}.{signature}",
    ):
        assert await jwts.check(token) == UNKNOWN
    assert isinstance(await jwts.check(f"{head}.{claims}.{signature}"), Caller)


async def test_a_key_that_is_too_short_is_refused(issuer: Issuer, http: aiohttp.ClientSession) -> None:
    short = rsa.generate_private_key(65537, 1024)  # noqa: S505
    issuer.published[:] = [publish(short, "k", "RS256")]
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        token = issuer.sign("k", "RS256", key=short)

    assert await make_jwts(issuer, http).check(token) == UNKNOWN


@pytest.mark.parametrize(
    "text",
    ["..", "a.b.c", "\udcff.x.y", f"{encode([1])}.x.y", f"{encode({'alg': 'ES256', 'kid': 7})}.x.y",
     f"{encode({'alg': ['ES256']})}.x.y", base64.urlsafe_b64encode(b"[" * 9000).decode() + ".x.y"],
    ids=["empty", "letters", "no text", "a list", "a number for an id", "a list of algorithms", "deep JSON"],
)  # fmt: skip
async def test_a_text_that_is_no_token_is_refused_without_a_question_to_the_issuer(
    jwts: Jwts, issuer: Issuer, text: str
) -> None:
    assert looks_like_jwt(text)
    assert await jwts.check(text) == UNKNOWN
    assert issuer.asked == 0
