"""Calls of one SQS endpoint: SQS's JSON protocol, carried by aiohttp and signed by botocore.

boto3's session says who we are, in which region, and where SQS is. Proxies and authorities are those of the environment. An
operation and its parameters are those of SQS's own API: a client knows nothing of turns.
"""

import asyncio
import json
import random
from typing import Any

import aiohttp
import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from turnstile.backends.sqs.credentials import Credentials
from turnstile.backends.sqs.endpoint import Endpoint, SqsOptions, find_endpoint
from turnstile.errors import QueueUnavailableError

Parameters = dict[str, Any]
Answer = dict[str, Any]
"""What SQS has nothing to say in is absent, or None."""

POLL = "ReceiveMessage"
"""Tried once, for as long as the long poll takes. Every other operation is a command, and is tried twice."""
POLL_SLACK_SECONDS = 10.0
"""What a poll may take beyond the wait that it asks for."""
CONNECT_SECONDS = 3.0
COMMAND_SECONDS = 5.0
DRIP_SECONDS = 30.0
"""How much longer a whole response may take than its first byte. Long, because a response that has arrived holds messages, and
counts also where a handler has blocked the event loop in the meantime."""
COMMANDS = 16
"""At a time; the others wait. Messages may be given back one by one, by as many sessions as a worker has in hand."""
RETRY_SECONDS = 0.5
"""The longest wait before the second try of a command that was answered 5xx or throttled."""


class CallRefusedError(QueueUnavailableError):
    """SQS has answered, and the answer is an error; `code` is SQS's own, in the form of the older or of the newer protocol.

    `passing`: SQS is overloaded or has an error of its own, and the same call may be answered well in a moment.
    """

    def __init__(self, code: str, reason: str, *, passing: bool = False) -> None:
        super().__init__(reason)
        self.code = code
        self.passing = passing


class SqsClient:
    """For one event loop."""

    def __init__(self, session: botocore.session.Session, endpoint: Endpoint) -> None:
        self._session = session
        self._endpoint = endpoint
        self._credentials = Credentials(session)
        self._commands = asyncio.Semaphore(COMMANDS)
        self._http: aiohttp.ClientSession | None = None
        self._is_closed = False

    @classmethod
    def open(cls, options: SqsOptions) -> "SqsClient":
        """Asks no server. Raises RegionMissingError, SettingsError."""
        session = botocore.session.get_session()
        return cls(session, find_endpoint(session, options))

    def for_another_loop(self) -> "SqsClient":
        """A client of the same endpoint. To find it once more would take a tenth of a second."""
        return SqsClient(self._session, self._endpoint)

    async def call(
        self, operation: str, parameters: Parameters, *, seconds: float = COMMAND_SECONDS, tries: int = 2
    ) -> Answer:
        """The answer. `seconds` bounds each try of a command; one or two `tries`.

        Raises CallRefusedError, or QueueUnavailableError where there was no answer: the call may be done then. Of a caller that
        is cancelled nobody knows whether the call is done.
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
                await asyncio.sleep(random.uniform(0, RETRY_SECONDS))  # noqa: S311 - not a secret
            except QueueUnavailableError:
                if tries == 1:
                    raise
            # On a new connection: what broke that one has most likely broken those that lie idle, too.
            async with self._open(limit=1) as fresh:
                return await self._ask(fresh, operation, parameters, seconds)

    async def forget_connections(self) -> None:
        """Uses none of them again: after a rest of which nobody knows what has become of them. No call may be under way."""
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def close(self) -> None:
        """Closes the connections; a poll that is under way is broken off."""
        self._is_closed = True
        self._credentials.close()
        await self.forget_connections()

    def _kept(self) -> aiohttp.ClientSession:
        if self._is_closed:
            raise QueueUnavailableError("SQS was called after the end")
        if self._http is None:
            self._http = self._open(limit=0)
        return self._http

    def _open(self, limit: int) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=limit, ssl=self._endpoint.tls or True)
        # Not `trust_env`: aiohttp would read a file on a thread of the loop's, and handlers may have all of them.
        return aiohttp.ClientSession(connector=connector, proxy=self._endpoint.proxy)

    async def _ask(self, http: aiohttp.ClientSession, operation: str, parameters: Parameters, seconds: float) -> Answer:
        headers, body = await self._signed(operation, parameters)
        # aiohttp checks `sock_read` only while nothing has arrived, `total` also after a blocked loop.
        timeout = aiohttp.ClientTimeout(total=seconds + DRIP_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=seconds)
        try:
            async with http.post(self._endpoint.url, data=body, headers=headers, timeout=timeout) as response:
                return _read(operation, response, await response.read())
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise QueueUnavailableError(f"{operation}: {type(error).__name__}: {error}") from error

    async def _signed(self, operation: str, parameters: Parameters) -> tuple[dict[str, str], bytes]:
        body = json.dumps(parameters).encode()
        credentials = await self._credentials.freeze(COMMAND_SECONDS)
        request = AWSRequest("POST", self._endpoint.url, _headers(operation), body)
        SigV4Auth(credentials, "sqs", self._endpoint.region).add_auth(request)
        return dict(request.headers.items()), body


def _headers(operation: str) -> dict[str, str]:
    # By the last, errors are named as boto3 names them.
    return {
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": f"AmazonSQS.{operation}",
        "x-amzn-query-mode": "true",
    }


def _read(operation: str, response: aiohttp.ClientResponse, body: bytes) -> Answer:
    # Not orjson, which refuses half of a surrogate pair: one message with such a body would make a worker deaf.
    try:
        answer = json.loads(body or b"{}")
    except ValueError:
        answer = None
    if response.status in (200, 204) and isinstance(answer, dict):
        return answer
    named = answer if isinstance(answer, dict) else {}
    # The header has the code of the older protocol, which boto3 goes by; `__type` that of the newer one, in a namespace.
    code = response.headers.get("x-amzn-query-error", "").partition(";")[0]
    code = code or str(named.get("__type", response.status)).partition(":")[0].rpartition("#")[2]
    reason = named.get("message") or named.get("Message") or f"status {response.status}"
    passing = response.status >= 500 or response.status == 429 or "Throttl" in code
    raise CallRefusedError(code, f"{operation}: {code}: {reason}", passing=passing)
