"""Who has a key of the settings."""

import hmac

import pytest

from turnstile.access.role import Role
from turnstile.producer.credentials.configured_keys import ConfiguredKeys

KEYS = ConfiguredKeys([("acme", "key-one-1"), ("globex", "key-two-2"), ("acme", "key-three")])


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("key-one-1", ("acme", "settings:1")),
        ("key-two-2", ("globex", "settings:2")),
        ("key-three", ("acme", "settings:3")),
        ("key-one-", None),
        ("acme:key-one-1", None),
        ("", None),
        ("\udcff", None),
    ],
)
def test_a_key_has_one_caller_or_none(key: str, found: tuple[str, str] | None) -> None:
    caller = KEYS.find(key)

    assert (caller and (caller.tenant_id, caller.key_id)) == found
    assert caller is None or caller.role is Role.ADMIN


@pytest.mark.parametrize("key", ["key-one-1", "key-three", "wrong"])
def test_every_configured_key_is_compared(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    compared = []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(len(a)) or compare(a, b))
    KEYS.find(key)
    assert compared == [32, 32, 32]


def test_keys_are_not_stored() -> None:
    assert "key-one" not in repr(vars(KEYS))
