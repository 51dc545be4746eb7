"""Calls of one SQS endpoint over kept-alive HTTP on the event loop: connections, time-outs, and a command's second try.

What is said in them is a transport's.
"""

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from botocore.configprovider import ConfigChainFactory
from botocore.httpsession import get_cert_path
from botocore.session import Session
from botocore.utils import get_environ_proxies

from turnstile.backends.sqs.http_answer import HttpAnswer
from turnstile.backends.sqs.http_connection import HttpConnection
from turnstile.backends.sqs.transport import (
    BESIDE,
    COMMAND_SECONDS,
    CONNECT_SECONDS,
    POLL,
    POLL_SLACK_SECONDS,
    Answer,
    CallRefusedError,
    Parameters,
)
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, SettingsError

COMMANDS = 16
"""At a time; the others wait. Messages may be given back one by one, by as many sessions as a worker has in hand."""

RETRY_SECONDS = 0.5
"""At most so long a command that was answered 500 or throttled waits for its second try."""


class PassingRefusalError(CallRefusedError):
    """SQS is overloaded or has an error of its own: the same call may be answered well in a moment."""


class SqsHttp:
    """For one event loop. `url` names the endpoint; `bundle` is a file of authorities, botocore's if None."""

    def __init__(self, url: str, bundle: str | None, settings: Settings) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = _trust(bundle) if parts.scheme == "https" else None
        self._commands = asyncio.Semaphore(COMMANDS)
        self._most_idle = COMMANDS + settings.pollers + BESIDE
        self._idle: list[HttpConnection] = []

    def close_idle(self) -> None:
        """Closes the connections that nobody uses; a poll that is under way is left behind."""
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        """The same for good: none is kept any more."""
        self._most_idle = 0
        self.close_idle()

    async def persist(self, operation: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """What `ask` answers: a poll is tried once, a command once more if it failed in passing."""
        if operation == POLL:
            return await ask()
        async with self._commands:
            try:
                return await ask()
            except PassingRefusalError:
                await asyncio.sleep(random.uniform(0, RETRY_SECONDS))  # noqa: S311 - not a secret
            except CallRefusedError:
                raise
            except QueueUnavailableError:
                # What broke this connection has most likely broken those that lie idle, too: the second try gets a new one.
                self.close_idle()
            return await ask()

    async def exchange(self, operation: str, request: bytes, parameters: Parameters) -> HttpAnswer:
        """The answer to a whole HTTP request, made of `parameters`. Raises QueueUnavailableError: SQS may have done it."""
        try:
            connection = await self._connect()
            answer = await connection.exchange(request, _patience(operation, parameters))
        except (OSError, ValueError) as error:
            # Of the one are TimeoutError and ssl.SSLError; the other is an answer that is no HTTP.
            raise QueueUnavailableError(f"{operation}: {type(error).__name__}: {error}") from error
        if connection.is_idle and len(self._idle) < self._most_idle:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    async def _connect(self) -> HttpConnection:
        while self._idle:
            kept = self._idle.pop()
            if kept.is_idle and not kept.was_left():
                return kept
            kept.close()
        async with asyncio.timeout(CONNECT_SECONDS):
            return await HttpConnection.open(self._host, self._port, self._tls)


def _patience(operation: str, parameters: Parameters) -> float:
    return parameters.get("WaitTimeSeconds", 0) + POLL_SLACK_SECONDS if operation == POLL else COMMAND_SECONDS


def refusal(status: int, code: str, reason: str) -> CallRefusedError:
    """The error that an answer means."""
    passing = status >= 500 or status == 429 or "Throttl" in code
    return (PassingRefusalError if passing else CallRefusedError)(code, reason)


def find_endpoint(client: Any) -> str:
    """Where a boto3 client sends what it is asked: not always what its `meta` says (FIPS in some partitions). Asks nobody."""
    urls: list[str] = []

    def look(params: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]]:
        # Before it is signed, and answered in the network's place: boto3 sends nothing then.
        urls.append(params["url"])
        return SimpleNamespace(status_code=200), {}

    client.meta.events.register("before-call.sqs.ListQueues", look)
    client.list_queues()
    client.meta.events.unregister("before-call.sqs.ListQueues", look)
    return urls[0]


def names_proxy(url: str) -> bool:
    """Whether the environment names a proxy for this endpoint: nothing here speaks to one."""
    return bool(get_environ_proxies(url).get(urlsplit(url).scheme))


def find_bundle(session: Session) -> str | None:
    """The file of authorities that botocore would go by, if the user names one."""
    named: str | None = session.get_config_variable("ca_bundle")
    return named or ConfigChainFactory(session).create_config_chain(env_var_names="REQUESTS_CA_BUNDLE").provide()


def _trust(bundle: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=bundle or get_cert_path(True))
    except OSError as error:
        raise SettingsError(f"AWS_CA_BUNDLE: {error.strerror or error}") from None
