"""Whose pages may call the API, and whose JWTs it accepts."""

import json

import pytest

from turnstile.config.config_file import load
from turnstile.errors import SettingsError


def refusal(**overrides: object) -> str:
    with pytest.raises(SettingsError) as refused:
        load(**overrides)
    return str(refused.value)


def test_pages_of_named_origins_may_call() -> None:
    given = "https://chat.example, https://x.example:8443,http://localhost:3000"
    assert load(api_cors_origins=given).api_cors_origins == tuple(one.strip() for one in given.split(","))


@pytest.mark.parametrize(
    "origin",
    ["*", "https://*.example", "http://chat.example", "https://chat.example/", "chat.example", "https://a@b.example", "null",
     "https://Chat.example", "https://chat.example:0"],
)  # fmt: skip
def test_an_origin_that_no_browser_sends_or_that_is_too_wide_is_refused(origin: str) -> None:
    assert "CORS_ORIGINS" in refusal(api_cors_origins=origin)


ISSUER = {"issuer": "https://login.example/", "audience": "turnstile", "jwks_url": "https://login.example/keys"}


def test_the_issuer_of_jwts_is_a_json_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_JWT", json.dumps({**ISSUER, "roles": {"chat.write": "submit"}}))

    found = load().jwt

    assert found is not None
    assert (found.jwks_url, found.algorithms, found.roles) == (
        ISSUER["jwks_url"],
        ("RS256", "ES256"),
        {"chat.write": "submit"},
    )


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"jwks_url": "http://login.example/keys"}, "TURNSTILE_JWT: jwks_url"),
        ({"jwks_url": "https:///keys"}, "TURNSTILE_JWT: jwks_url"),
        ({"algorithms": ["HS256"]}, "TURNSTILE_JWT: algorithms"),
        ({"algorithms": ["none"]}, "TURNSTILE_JWT: algorithms"),
        ({"algorithms": []}, "TURNSTILE_JWT: algorithms"),
        ({"roles": {"x": "owner"}}, "TURNSTILE_JWT: roles"),
        ({"issuer": ""}, "TURNSTILE_JWT: issuer"),
        ({"leeway": 3600}, "TURNSTILE_JWT: leeway"),
    ],
    ids=str,
)
def test_an_issuer_that_could_be_forged_or_is_misspelt_is_refused(given: dict[str, object], named: str) -> None:
    assert named in refusal(jwt={**ISSUER, **given})


@pytest.mark.parametrize("text", ["https://login.example/", "{", "[]"])
def test_an_issuer_that_is_no_json_object_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TURNSTILE_JWT", text)

    assert "jwt" in refusal().lower()
