"""SQS without botocore's layers: its JSON protocol over kept-alive HTTP/1.1, on the event loop (ADR 0038).

Of botocore stays what must be right: who we are (its providers of credentials, and their refresh), where SQS is (its rules of
endpoints), whom to trust, and how a request is signed. No thread a call, no model of the API. The MD5 sums of messages are not
looked at, as boto3 does not: TLS and the length of the answer have seen to it that a body is whole.
"""

import asyncio
import json
import random
import ssl
from datetime import UTC, datetime
from hashlib import sha256
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlsplit

import boto3
import botocore.session
from botocore.auth import SigV4Auth
from botocore.credentials import ReadOnlyCredentials
from botocore.httpsession import get_cert_path
from botocore.utils import get_environ_proxies

from turns.aws_credentials import CredentialsAside, seek
from turns.boto3_transport import ask, make_client
from turns.errors import QueueUnavailableError, SettingsError
from turns.http_answer import HttpAnswer
from turns.http_connection import HttpConnection
from turns.settings import Settings
from turns.sqs_transport import (
    COMMAND_SECONDS,
    CONNECT_SECONDS,
    EXTEND_SECONDS,
    POLL,
    POLL_SLACK_SECONDS,
    Answer,
    CallRefusedError,
    Parameters,
)

RETRY_SECONDS = 0.5
"""At most so long a command that was answered 500 or throttled waits for its second try."""

CONTENT_TYPE = "application/x-amz-json-1.0"


class PassingRefusalError(CallRefusedError):
    """SQS is overloaded or has an error of its own: the same call may be answered well in a moment."""


class LeanTransport:
    """As `turns.sqs_transport.SqsTransport`, for one event loop."""

    def __init__(self, settings: Settings) -> None:
        session = botocore.session.get_session()
        self._credentials = CredentialsAside(seek(session, settings.aws_region))
        # The heartbeat's, which calls from a thread and seldom; and it knows where SQS is.
        self._client = make_client(
            boto3.session.Session(botocore_session=session), settings, EXTEND_SECONDS, 1, attempts=1
        )
        url = self._client.meta.endpoint_url
        if get_environ_proxies(url).get(urlsplit(url).scheme):
            raise SettingsError("TURNSTILE_SQS_TRANSPORT: lean uses no proxy, and the environment names one for SQS")
        self._signing = _Signing(url, self._client.meta.region_name)
        self._tls = _trust(session.get_config_variable("ca_bundle")) if url.startswith("https:") else None
        self._poll_seconds = settings.receive_wait_seconds + POLL_SLACK_SECONDS
        self._idle: list[HttpConnection] = []

    def close(self) -> None:
        """Closes the connections; a poll that is under way is left behind."""
        self._credentials.close()
        self._close_idle()

    async def call(self, operation: str, parameters: Parameters) -> Answer:
        """One call. A caller that is cancelled closes its connection: SQS may have done it all the same."""
        credentials = await self._credentials.freeze(COMMAND_SECONDS)
        request = self._signing.request(credentials, operation, json.dumps(parameters).encode())
        if operation == POLL:
            return await self._try(operation, request, self._poll_seconds)
        try:
            return await self._try(operation, request, COMMAND_SECONDS)
        except PassingRefusalError:
            await asyncio.sleep(random.uniform(0, RETRY_SECONDS))  # noqa: S311 - not a secret
        except CallRefusedError:
            raise
        except QueueUnavailableError:
            # What broke this connection has most likely broken those that lie idle, too: the second try gets a new one.
            self._close_idle()
        return await self._try(operation, request, COMMAND_SECONDS)

    def call_blocking(self, operation: str, parameters: Parameters) -> Answer:
        """One call, tried once, by boto3."""
        return ask(self._client, operation, parameters)

    async def _try(self, operation: str, request: bytes, seconds: float) -> Answer:
        try:
            connection = await self._connect()
            answer = await connection.exchange(request, seconds)
        except (OSError, ValueError) as error:
            # Of the one are TimeoutError and ssl.SSLError; the other is an answer that is no HTTP.
            raise QueueUnavailableError(f"{operation}: {type(error).__name__}: {error}") from error
        if connection.is_idle:
            self._idle.append(connection)
        return _read(operation, answer)

    async def _connect(self) -> HttpConnection:
        while self._idle:
            kept = self._idle.pop()
            if kept.is_idle:
                return kept
        async with asyncio.timeout(CONNECT_SECONDS):
            return await HttpConnection.open(self._signing.host, self._signing.port, self._tls)

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


class _Signing:
    """Requests to one endpoint, signed by botocore.

    What is signed is written down here: botocore makes it from any request at all, which takes three times as long, and ours
    differ in three places.
    """

    def __init__(self, url: str, region: str) -> None:
        parts = urlsplit(url)
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self._authority = parts.netloc.rpartition("@")[2]
        self._path = parts.path or "/"
        self._region = region

    def request(self, credentials: ReadOnlyCredentials, operation: str, body: bytes) -> bytes:
        """The whole of an HTTP request."""
        timestamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        headers = {
            "content-type": CONTENT_TYPE,
            "host": self._authority,
            "x-amz-date": timestamp,
            **({"x-amz-security-token": credentials.token} if credentials.token else {}),
            "x-amz-target": f"AmazonSQS.{operation}",
            # Errors are named as boto3 names them.
            "x-amzn-query-mode": "true",
        }
        names, lines = ";".join(headers), "\n".join(f"{name}:{value}" for name, value in headers.items())
        canonical = f"POST\n{quote(self._path, safe='/~')}\n\n{lines}\n\n{names}\n{sha256(body).hexdigest()}"
        signer: Any = SigV4Auth(credentials, "sqs", self._region)
        moment = SimpleNamespace(context={"timestamp": timestamp})
        signature = signer.signature(signer.string_to_sign(moment, canonical), moment)
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={signer.scope(moment)}, SignedHeaders={names}, Signature={signature}"
        )
        headers |= {"content-length": str(len(body)), "user-agent": "Turnstile"}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {self._path} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body


def _trust(bundle: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=bundle or get_cert_path(True))
    except OSError as error:
        raise SettingsError(f"AWS_CA_BUNDLE: {error.strerror or error}") from None


def _read(operation: str, answer: HttpAnswer) -> Answer:
    # Not orjson, which refuses half of a surrogate pair: one message with such a body would make a worker deaf.
    try:
        said = json.loads(answer.body or b"{}")
    except ValueError:
        said = None
    if answer.status in (200, 204) and isinstance(said, dict):
        return said
    told = said if isinstance(said, dict) else {}
    # The header has the code of the older protocol, which boto3 goes by; `__type` that of the newer one, in a namespace.
    code = answer.headers.get("x-amzn-query-error", "").partition(";")[0]
    code = code or str(told.get("__type", answer.status)).partition(":")[0].rpartition("#")[2]
    reason = told.get("message") or told.get("Message") or f"status {answer.status}"
    passing = answer.status >= 500 or answer.status == 429 or "Throttl" in code
    raise (PassingRefusalError if passing else CallRefusedError)(code, f"{operation}: {code}: {reason}")
