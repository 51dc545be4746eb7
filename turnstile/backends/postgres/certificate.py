"""Distinguishes an invalid certificate of Postgres from an outage."""

import re

import psycopg

from turnstile.errors import CertificateRefusedError

# libpq has no codes for these errors. The last two are not outages either: the server has no TLS, or a local file is invalid.
_UNTRUSTED = re.compile(
    r"(?:SSL error: (?=certificate verify failed)|(?=server certificate for )|(?=server does not support SSL)|"
    r"(?=could not (?:read|load) (?:root |private key|certificate)|root certificate file ))(?P<why>[^\n]+)"
)


def certificate_refused(setting: str, error: psycopg.Error) -> CertificateRefusedError | None:
    """The error for the operator if `error` is a certificate problem; otherwise None."""
    found = _UNTRUSTED.search(str(error))
    return None if found is None else CertificateRefusedError(setting, found["why"])
