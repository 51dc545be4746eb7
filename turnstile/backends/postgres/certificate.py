"""Checks the certificate of Postgres, if the URL asks for TLS."""

import re

import psycopg
from psycopg.conninfo import conninfo_to_dict

from turnstile.backends.postgres.database import conninfo
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.errors import CertificateRefusedError

# libpq has no codes for these errors. The last two are not outages either: the server has no TLS, or a local file is invalid.
_UNTRUSTED = re.compile(
    r"(?:SSL error: (?=certificate verify failed)|(?=server certificate for )|(?=server does not support SSL)|"
    r"(?=could not (?:read|load) (?:root |private key|certificate)|root certificate file ))(?P<why>[^\n]+)"
)
_TLS_MODES = frozenset({"require", "verify-ca", "verify-full"})


def certificate_refused(setting: str, error: psycopg.Error) -> CertificateRefusedError | None:
    """The error for the operator if `error` is a certificate problem, else None."""
    found = _UNTRUSTED.search(str(error))
    return None if found is None else CertificateRefusedError(setting, found["why"])


async def check_certificate(setting: str, place: DatabasePlace) -> None:
    """Raises CertificateRefusedError if the URL asks for TLS and the server's certificate does not verify. Any other failure is
    an outage and raises nothing."""
    given = conninfo(place, "turnstile-check")
    # libpq also reads `sslmode` from its own environment variables.
    defaults = {option.keyword: option.val for option in psycopg.pq.Conninfo.get_defaults()}
    if (conninfo_to_dict(given).get("sslmode") or (defaults[b"sslmode"] or b"").decode()) not in _TLS_MODES:
        return
    try:
        connection = await psycopg.AsyncConnection.connect(given)
        await connection.close()
    except psycopg.Error as error:
        if (refused := certificate_refused(setting, error)) is not None:
            raise refused from error
