"""Requests of SQS's JSON protocol to one endpoint, signed by botocore: what both transports of the event loop send.

What is signed is written down here, in the canonical form that AWS asks for (Signature Version 4). botocore makes it from any
request at all, which takes three times as long (ADR 0038); ours are POSTs of one path, and differ in the values of their headers
and in their body.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from types import SimpleNamespace
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from botocore.auth import SIGNED_HEADERS_BLACKLIST, SigV4Auth
from botocore.credentials import ReadOnlyCredentials
from botocore.utils import normalize_url_path

from turnstile.errors import SettingsError

USUAL_PORTS = {"http": 80, "https": 443}


class SqsSigning:
    """For one endpoint in one region."""

    def __init__(self, url: str, region: str) -> None:
        parts = urlsplit(url)
        if parts.query:
            raise SettingsError("AWS_ENDPOINT_URL_SQS: must be an address without a query")
        self._host = _host(parts)
        self._path = parts.path or "/"
        self._canonical_path = quote(normalize_url_path(self._path), safe="/~")
        self._region = region

    def request(self, credentials: ReadOnlyCredentials, told: Mapping[str, str], body: bytes) -> bytes:
        """The whole of an HTTP request. `told` are its headers, but for those that are made here."""
        timestamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        token = {"x-amz-security-token": credentials.token} if credentials.token else {}
        others = {name.lower(): " ".join(value.split()) for name, value in told.items()}
        unsigned = {name: others.pop(name) for name in SIGNED_HEADERS_BLACKLIST & others.keys()}
        headers = dict(sorted({**others, **token, "host": self._host, "x-amz-date": timestamp}.items()))
        names, lines = ";".join(headers), "\n".join(f"{name}:{value}" for name, value in headers.items())
        canonical = f"POST\n{self._canonical_path}\n\n{lines}\n\n{names}\n{sha256(body).hexdigest()}"
        signer: Any = SigV4Auth(credentials, "sqs", self._region)
        moment = SimpleNamespace(context={"timestamp": timestamp})
        signature = signer.signature(signer.string_to_sign(moment, canonical), moment)
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={signer.scope(moment)}, SignedHeaders={names}, Signature={signature}"
        )
        headers |= {"content-length": str(len(body)), **unsigned}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {self._path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def _host(parts: SplitResult) -> str:
    # As botocore has it: in lower case, and without the port that goes without saying.
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return host if parts.port in (None, USUAL_PORTS.get(parts.scheme)) else f"{host}:{parts.port}"
