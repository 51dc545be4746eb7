"""The signature of the Standard Webhooks convention: its example, and the judgement of its library."""

import time

import pytest
from standardwebhooks import Webhook

from turnstile.webhooks.signature import derive_secret, read_secret, signed_headers

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "QUJD" * 8


def test_the_example_of_the_convention() -> None:
    headers = signed_headers([SECRET], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize("known", [SECRET, OTHER])
def test_a_receiver_that_knows_one_of_two_secrets_accepts_the_signature(known: str) -> None:
    headers = signed_headers([SECRET, OTHER], "id", int(time.time()), b"{}")

    Webhook(known).verify(b"{}", headers)


@pytest.mark.parametrize(
    "text",
    ["", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_not base64!", "whsec_" + "QUJD" * 22],
)
def test_an_invalid_secret_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="random bytes") as refused:
        read_secret(text)

    assert "c2hvcnQ" not in str(refused.value)


def test_a_tenants_secret_is_one_of_the_convention_and_stays_the_same() -> None:
    derived = derive_secret(SECRET, "acme", 1)

    # Receivers have it: another form of the derivation would break them all.
    assert derived == "whsec_K3x6q1NXkcYWxXcvAii0nNFrl9TdogaR1W03zUt9aUw="
    assert len(read_secret(derived)) == 32


def test_no_two_tenants_numbers_or_roots_have_one_secret() -> None:
    derived = {
        derive_secret(root, tenant, number)
        for root in (SECRET, OTHER)
        for tenant in ("acme", "acme1", "globex")
        for number in (1, 2, 11)
    }

    assert len(derived) == 18
    assert not derived & {SECRET, OTHER}
