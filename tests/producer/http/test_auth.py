"""Which tenant a key belongs to."""

import hmac

import pytest

from turnstile.producer.http.auth import ApiKeys

KEYS = ApiKeys([("acme", "key-one-1"), ("globex", "key-two-2"), ("acme", "key-three")])


@pytest.mark.parametrize(
    ("key", "tenant"),
    [
        ("key-one-1", "acme"),
        ("key-two-2", "globex"),
        ("key-three", "acme"),
        ("key-one-", None),
        ("acme:key-one-1", None),
        ("", None),
        ("\udcff", None),
        (None, None),
    ],
)
def test_a_key_has_one_tenant_or_none(key: str | None, tenant: str | None) -> None:
    assert KEYS.find_tenant(key) == tenant


@pytest.mark.parametrize("key", [None, "anything"])
def test_without_configured_keys_every_caller_is_the_default_tenant(key: str | None) -> None:
    assert ApiKeys([]).find_tenant(key) == "default"


@pytest.mark.parametrize("key", ["key-one-1", "key-three", "wrong"])
def test_every_configured_key_is_compared(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    compared = []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(len(a)) or compare(a, b))
    KEYS.find_tenant(key)
    assert compared == [32, 32, 32]


def test_keys_are_not_stored() -> None:
    assert "key-one" not in repr(vars(KEYS))
