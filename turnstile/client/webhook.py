"""Verifies a completion webhook: by the rules of Standard Webhooks. Pure: the time is an argument."""

import hashlib
import hmac
import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import cast

from turnstile.client.documents import Webhook
from turnstile.client.errors import WebhookRefusedError
from turnstile.webhooks.signature import read_secret

TOLERANCE_SECONDS = 300
"""A post that is older, or is from so far in the future, may be one that somebody has recorded."""

_SECONDS = re.compile(r"[0-9]{1,12}")


def verify_webhook(headers: Mapping[str, str], body: bytes, secret: str, now: float) -> Webhook:
    """The content of a post that Turnstile has signed with the secret.

    `body` has the bytes as they came, before any parsing; `now` is in seconds since 1970, as `time.time()`. A post may come
    twice: remember its header `webhook-id`, and do the work once. Raises WebhookRefusedError; ValueError if `secret` is none.
    """
    named = {name.lower(): value for name, value in headers.items()}
    try:
        event_id, timestamp, signatures = (named[f"webhook-{part}"] for part in ("id", "timestamp", "signature"))
    except KeyError as missing:
        raise WebhookRefusedError(f"the header {missing} is missing") from None
    signed = f"{event_id}.{timestamp}.".encode(errors="replace") + body
    expected = b64encode(hmac.digest(read_secret(secret), signed, hashlib.sha256))
    # All are compared, and each in constant time: how long it takes tells nothing about a guess.
    fits = [_is_equal(signature, expected) for signature in signatures.split(" ")]
    if not any(fits):
        raise WebhookRefusedError("no signature fits the secret")
    if _SECONDS.fullmatch(timestamp) is None or abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        raise WebhookRefusedError("the timestamp is more than five minutes away from the clock of this machine")
    return cast("Webhook", json.loads(body))


def _is_equal(signature: str, expected: bytes) -> bool:
    version, _, digest = signature.partition(",")
    return version == "v1" and hmac.compare_digest(digest.encode(errors="replace"), expected)
