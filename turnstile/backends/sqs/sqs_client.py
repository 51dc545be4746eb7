"""A client of one SQS endpoint: SQS's JSON protocol, sent by aiohttp and signed by botocore.

boto3's session has the credentials, the region and the endpoint. The environment has the proxies and the certificate
authorities. Operations and parameters are those of SQS's API: the client knows nothing about turns.
"""

import asyncio
import json
from typing import Any

import aiohttp
import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from turnstile.backends.jitter import CHANCE
from turnstile.backends.sqs.credentials import Credentials
from turnstile.backends.sqs.endpoint import Endpoint, find_endpoint
from turnstile.errors import CredentialsMissingError, QueueUnavailableError, SettingsError
from turnstile.telemetry.backend_health import health_of

Parameters = dict[str, Any]
Response = dict[str, Any]
"""A decoded response. Empty fields are absent, or None."""

POLL = "ReceiveMessage"
"""Tried once, with a timeout that covers the long poll. Every other operation is a command, and is tried twice by default."""
POLL_SLACK_SECONDS = 10.0
"""Extra time for a poll, beyond its WaitTimeSeconds."""
CONNECT_SECONDS = 3.0
COMMAND_SECONDS = 5.0
DRIP_SECONDS = 30.0
"""Extra time for a whole response, beyond its first byte. Long, because a response that has arrived carries messages, and the
time also runs while a handler blocks the event loop."""
COMMANDS = 16
"""Most concurrent commands; others wait. Each session of a worker may give back its messages one by one."""
HEADERS = {"content-type": "application/x-amz-json-1.0", "x-amzn-query-mode": "true"}
"""The query mode makes SQS return the error codes that boto3 uses."""
CREDENTIALS_AGAIN_SECONDS = (0.0, 1.0, 2.0)
"""The pauses before each search for credentials at the start of a process."""
RETRY_SECONDS = 0.5
"""Longest wait before the second try of a command that got a 5xx response or was throttled."""

CREDENTIAL_ERRORS = frozenset({
    "ExpiredToken", "RequestExpired", "InvalidClientTokenId", "UnrecognizedClient", "SignatureDoesNotMatch", "InvalidSignature",
    "IncompleteSignature", "MissingAuthenticationToken",
})  # fmt: skip
"""The codes by which AWS refuses the caller's credentials, without the suffix `Exception` of the newer protocol. Every other call
fails as well; `AccessDenied` refuses one operation."""


class CallRefusedError(QueueUnavailableError):
    """SQS returned an error response. `code` is the SQS error code, in the form of the older or of the newer protocol.

    `passing`: SQS is overloaded or has an internal error, and a retry may succeed soon.
    """

    def __init__(self, code: str, reason: str, *, passing: bool = False) -> None:
        super().__init__(reason)
        self.code = code
        self.passing = passing

    @property
    def refuses_credentials(self) -> bool:
        return self.code.removesuffix("Exception") in CREDENTIAL_ERRORS


class SqsClient:
    """An SQS client for one event loop."""

    def __init__(self, session: botocore.session.Session, endpoint: Endpoint) -> None:
        self._session = session
        self._endpoint = endpoint
        self._credentials = Credentials(session)
        self._health = health_of("sqs")
        self._commands = asyncio.Semaphore(COMMANDS)
        self._http: aiohttp.ClientSession | None = None
        self._is_closed = False

    @classmethod
    def open(cls, region: str | None = None, endpoint_url: str | None = None) -> "SqsClient":
        """Makes a client without a network call. The AWS configuration fills in what is None.

        Raises RegionMissingError, SettingsError.
        """
        session = botocore.session.get_session()
        return cls(session, find_endpoint(session, region, endpoint_url))

    @property
    def region(self) -> str:
        return self._endpoint.region

    def for_another_loop(self) -> "SqsClient":
        """A client of the same endpoint. A new search for the endpoint would take a tenth of a second."""
        return SqsClient(self._session, self._endpoint)

    async def call(
        self, operation: str, parameters: Parameters, *, seconds: float = COMMAND_SECONDS, tries: int = 2
    ) -> Response:
        """Returns the response. `seconds` bounds each try of a command; `tries` is 1 or 2.

        Raises CallRefusedError, or QueueUnavailableError if there was no response. SQS may have carried out the call then,
        and also if the caller is cancelled.
        """
        if operation == POLL:
            wait = parameters.get("WaitTimeSeconds", 0) + POLL_SLACK_SECONDS
            return await self._ask(self._kept(), operation, parameters, wait)
        async with self._commands:
            try:
                return await self._ask(self._kept(), operation, parameters, seconds)
            except CallRefusedError as error:
                if tries == 1 or not error.passing:
                    raise
                await asyncio.sleep(CHANCE.uniform(0, RETRY_SECONDS))
            except QueueUnavailableError:
                if tries == 1:
                    raise
            # On a new connection: the fault that broke the first one has probably broken the idle ones too.
            async with self._open(limit=1) as fresh:
                return await self._ask(fresh, operation, parameters, seconds)

    async def check_credentials(self) -> None:
        """For the start of a process. Searches three times, and does not call SQS. Raises SettingsError if there are none."""
        missing: CredentialsMissingError | None = None
        # botocore gives a host's metadata server one second, and takes a late answer for none.
        for pause in CREDENTIALS_AGAIN_SECONDS:
            await asyncio.sleep(pause)
            try:
                await self._credentials.freeze(COMMAND_SECONDS)
            except CredentialsMissingError as error:
                missing = error
            except QueueUnavailableError:
                # The server that gives them out does not respond: an outage.
                return
            else:
                return
        raise SettingsError(str(missing)) from None

    async def forget_connections(self) -> None:
        """Closes the connections, so that later calls open new ones. No call may be in progress.

        For use after a pause that may have broken them.
        """
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def close(self) -> None:
        """Closes the connections; a poll in progress is broken off."""
        self._is_closed = True
        self._credentials.close()
        await self.forget_connections()

    def _kept(self) -> aiohttp.ClientSession:
        if self._http is None:
            self._http = self._open(limit=0)
        return self._http

    def _open(self, limit: int) -> aiohttp.ClientSession:
        if self._is_closed:
            raise QueueUnavailableError("SQS was called after the end")
        connector = aiohttp.TCPConnector(limit=limit, ssl=self._endpoint.tls or True)
        # Not `trust_env`: aiohttp would read a file on a thread of the loop's pool, and handlers may occupy all its threads.
        return aiohttp.ClientSession(connector=connector, proxy=self._endpoint.proxy)

    async def _ask(
        self, http: aiohttp.ClientSession, operation: str, parameters: Parameters, seconds: float
    ) -> Response:
        try:
            headers, body = await self._signed(operation, parameters)
        except QueueUnavailableError:
            # No credentials: for this process SQS is away.
            self._health.failed()
            raise
        # aiohttp applies `sock_read` only while no data arrives, but `total` also after the event loop was blocked.
        timeout = aiohttp.ClientTimeout(total=seconds + DRIP_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=seconds)
        try:
            async with http.post(self._endpoint.url, data=body, headers=headers, timeout=timeout) as response:
                answer = _read(operation, response, await response.read())
        except CallRefusedError as error:
            # A refusal of this one call is a response all the same.
            away = error.passing or error.refuses_credentials
            note = self._health.failed if away else self._health.responded
            note()
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._health.failed()
            raise QueueUnavailableError(f"{operation}: {_describe(error)}") from error
        self._health.responded()
        return answer

    async def _signed(self, operation: str, parameters: Parameters) -> tuple[dict[str, str], bytes]:
        body = json.dumps(parameters).encode()
        credentials = await self._credentials.freeze(COMMAND_SECONDS)
        headers = {**HEADERS, "x-amz-target": f"AmazonSQS.{operation}"}
        request = AWSRequest("POST", self._endpoint.url, headers, body)
        SigV4Auth(credentials, "sqs", self._endpoint.region).add_auth(request)
        return dict(request.headers.items()), body


def _describe(error: Exception) -> str:
    # aiohttp's own sentence speaks of TLS, also where there is none. Where TLS fails, it has the reason.
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        return f"no connection to {error.host} port {error.port}: {error.os_error.strerror or error.os_error}"
    return f"{type(error).__name__}: {error}"


def _read(operation: str, response: aiohttp.ClientResponse, body: bytes) -> Response:
    # Not orjson, which refuses half of a surrogate pair: one message with such a body would stop a worker's receiving.
    try:
        answer = json.loads(body or b"{}")
    except ValueError:
        answer = None
    if response.status in (200, 204) and isinstance(answer, dict):
        return answer
    named = answer if isinstance(answer, dict) else {}
    # The header has the older protocol's code, which boto3 uses; `__type` has the newer one, with a namespace.
    code = response.headers.get("x-amzn-query-error", "").partition(";")[0]
    code = code or str(named.get("__type", response.status)).partition(":")[0].rpartition("#")[2]
    reason = named.get("message") or named.get("Message") or f"status {response.status}"
    passing = response.status >= 500 or response.status == 429 or "Throttl" in code
    raise CallRefusedError(code, f"{operation}: {code}: {reason}", passing=passing)
