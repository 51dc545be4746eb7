"""Whether Postgres shows a certificate that holds, where TLS is asked for."""

import re

import psycopg
from psycopg.conninfo import conninfo_to_dict

from turnstile.backends.postgres.database import conninfo
from turnstile.errors import CertificateRefusedError

# libpq has no codes for these. The last two are no outage either: the server has no TLS, or a file of ours is none.
_UNTRUSTED = re.compile(
    r"(?:SSL error: (?=certificate verify failed)|(?=server certificate for )|(?=server does not support SSL)|"
    r"(?=could not (?:read|load) (?:root |private key|certificate)|root certificate file ))(?P<why>[^\n]+)"
)
_TLS_MODES = frozenset({"require", "verify-ca", "verify-full"})


def certificate_refused(setting: str, error: psycopg.Error) -> CertificateRefusedError | None:
    """What to tell whoever has set this up, if the way in failed by a certificate."""
    found = _UNTRUSTED.search(str(error))
    return None if found is None else CertificateRefusedError(setting, found["why"])


async def check_certificate(setting: str, url: str) -> None:
    """Raises CertificateRefusedError if TLS is asked for and the server shows no certificate that holds. Whatever else is wrong
    with it is an outage."""
    given = conninfo(url, "turnstile-check")
    # As libpq itself would have it, which looks at its own variables too.
    defaults = {option.keyword: option.val for option in psycopg.pq.Conninfo.get_defaults()}
    if (conninfo_to_dict(given).get("sslmode") or (defaults[b"sslmode"] or b"").decode()) not in _TLS_MODES:
        return
    try:
        connection = await psycopg.AsyncConnection.connect(given)
        await connection.close()
    except psycopg.Error as error:
        if (refused := certificate_refused(setting, error)) is not None:
            raise refused from error
