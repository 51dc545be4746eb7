"""A webhook is taken if Turnstile has signed it with the tenant's secret, within five minutes: as Standard Webhooks says."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from turnstile.client import WebhookRefusedError, verify_webhook
from turnstile.webhooks.signature import derive_secret, signed_headers

ROOT = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD, NEW, OTHER = (derive_secret(ROOT, tenant, n) for tenant, n in (("acme", 1), ("acme", 2), ("globex", 1)))
BODY = b'{"type": "turn.succeeded", "data": {"id": "t"}}'
NOW = 1_800_000_000


def takes(headers: dict[str, str], body: bytes, secret: str, now: float) -> bool:
    try:
        verify_webhook(headers, body, secret, now)
    except WebhookRefusedError:
        return False
    return True


def test_it_gives_what_was_signed() -> None:
    headers = signed_headers([OLD], "turn_1", NOW, BODY)

    assert verify_webhook(headers, BODY, OLD, NOW)["data"]["id"] == "t"
    assert takes({name.title(): value for name, value in headers.items()}, BODY, OLD, NOW)


def test_either_secret_fits_while_one_replaces_the_other() -> None:
    headers = signed_headers([NEW, OLD], "turn_1", NOW, BODY)

    assert [takes(headers, BODY, secret, NOW) for secret in (OLD, NEW, OTHER)] == [True, True, False]


@pytest.mark.parametrize(("seconds", "taken"), [(-301, False), (-300, True), (300, True), (301, False)])
def test_a_post_of_another_time_is_refused(seconds: int, taken: bool) -> None:
    assert takes(signed_headers([OLD], "turn_1", NOW, BODY), BODY, OLD, NOW + seconds) is taken


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_post_without_one_of_the_headers_is_refused_and_it_is_named(name: str) -> None:
    headers = signed_headers([OLD], "turn_1", NOW, BODY)
    del headers[name]

    with pytest.raises(WebhookRefusedError, match=name):
        verify_webhook(headers, BODY, OLD, NOW)


def test_half_of_a_surrogate_pair_in_a_header_is_refused() -> None:
    """As a server has it that decodes headers with `surrogateescape`."""
    headers = {**signed_headers([OLD], "turn_1", NOW, BODY), "webhook-id": "\udcff"}

    assert not takes(headers, BODY, OLD, NOW)


def test_a_secret_that_is_none_is_the_receivers_fault() -> None:
    with pytest.raises(ValueError, match="must be whsec_"):
        verify_webhook(signed_headers([OLD], "turn_1", NOW, BODY), BODY, "secret", NOW)


values = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)


@given(
    st.sampled_from([(), ("webhook-id",), ("webhook-timestamp",), ("webhook-signature",), ("body",)]),
    values,
    st.sampled_from([OLD, NEW, OTHER]),
    st.lists(st.sampled_from([OLD, NEW, OTHER]), max_size=3),
)
def test_it_takes_what_the_library_takes(forged: tuple[str, ...], value: str, secret: str, signers: list[str]) -> None:
    now = int(time.time())
    headers = signed_headers(signers, "turn_1", now, BODY)
    body = value.encode() if "body" in forged else BODY
    headers |= {name: value for name in forged if name != "body"}
    try:
        Webhook(secret).verify(body, headers, json_parse=False)
        by_library = True
    except (WebhookVerificationError, ValueError):
        by_library = False

    assert takes(headers, body, secret, now) is by_library
