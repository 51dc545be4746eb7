"""Submits and reads turns over HTTP, as any client of the API does."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from turnstile.config.settings import LOCAL_HOSTS, Settings
from turnstile.errors import SET_BY_LOCAL_ENV
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode

TIMEOUT_SECONDS = 30.0
LONGEST_WAIT_SECONDS = 20.0
"""Longest wait in one read: below TIMEOUT_SECONDS and below the timeout of common proxies."""

ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """A response of the API. `replayed`: the response to an earlier, equal request."""

    status: int
    body: bytes
    replayed: bool = False


@asynccontextmanager
async def open_api(settings: Settings) -> AsyncIterator["ApiClient"]:
    """A client of the API at `settings.api_url`. Raises CommandError if that is not a URL."""
    url = settings.api_url.rstrip("/")
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, proxy=_find_proxy(url)) as session:
        yield ApiClient(session, url, settings.api_key)


class ApiClient:
    """Calls the API. Raises CommandError, with an exit code for the problem."""

    def __init__(self, session: aiohttp.ClientSession, url: str, api_key: str | None) -> None:
        self._session = session
        self._url = url
        self._key = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    async def submit(self, session_id: str, body: dict[str, Any], idempotency_key: str) -> tuple[dict[str, Any], bool]:
        """Submits a turn. Returns the response, and whether it is that of an earlier, equal request.

        Retries if the connection breaks before the response; the key makes this safe.
        """
        path = f"/v1/sessions/{quote(session_id, safe='')}/turns"
        attempts = 0
        while True:
            attempts += 1
            try:
                answer = await self._ask("POST", path, {"Idempotency-Key": idempotency_key}, json=body)
                break
            except (aiohttp.ClientError, TimeoutError) as error:
                if attempts == ATTEMPTS or isinstance(error, aiohttp.ClientConnectorError):
                    raise self._away(error) from error
        return read_answer(answer, self._url, keyed=bool(self._key)), answer.replayed

    async def read(self, turn_id: str, *, wait_seconds: float = 0.0) -> dict[str, Any]:
        """The turn. Returns when it has ended, at the latest after `wait_seconds`, at most LONGEST_WAIT_SECONDS."""
        wait = {"wait": min(wait_seconds, LONGEST_WAIT_SECONDS)} if wait_seconds else {}
        try:
            answer = await self._ask("GET", f"/v1/turns/{turn_id}", {}, params=wait)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._away(error) from error
        return read_answer(answer, self._url, keyed=bool(self._key))

    async def _ask(self, method: str, path: str, headers: Mapping[str, str], **request: Any) -> Answer:
        url, sent = f"{self._url}{path}", {**self._key, **headers}
        async with self._session.request(method, url, headers=sent, allow_redirects=False, **request) as response:
            replayed = response.headers.get("Idempotency-Replayed") == "true"
            return Answer(response.status, await response.read(), replayed)

    def _away(self, error: Exception) -> CommandError:
        reason = str(error) or type(error).__name__
        return CommandError(f"the API at {self._url} does not answer: {reason}", ExitCode.UNAVAILABLE)


def read_answer(answer: Answer, url: str, *, keyed: bool) -> dict[str, Any]:
    """The JSON document of a successful response. Raises CommandError. `keyed`: whether the request had an API key."""
    try:
        document = json.loads(answer.body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise CommandError(f"{url} answered {answer.status}, but not as a Turnstile API does", ExitCode.UNAVAILABLE)
    if 200 <= answer.status < 300:
        return document
    if answer.status == 401:
        refused = "the API does not know the key in TURNSTILE_API_KEY"
        missing = f"the API wants a key, and TURNSTILE_API_KEY is not set: {SET_BY_LOCAL_ENV}"
        raise CommandError(f"401: {refused if keyed else missing}", ExitCode.USAGE)
    detail = document.get("detail") or document.get("title") or "refused"
    # 422 has several causes; an unknown queue has its own exit code.
    unknown_queue = str(document.get("type")).endswith("unknown-queue")
    code = ExitCode.NOT_FOUND if unknown_queue else _code(answer.status)
    raise CommandError(f"{answer.status}: {detail}", code)


def _find_proxy(url: str) -> str | None:
    # Not aiohttp's `trust_env`: it also reads a login from .netrc, and refuses that together with the API key.
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    if not host:
        raise CommandError(f"TURNSTILE_API_URL: {url!r} is no URL", ExitCode.USAGE)
    # A configured proxy can't reach the loopback of this machine.
    if host in LOCAL_HOSTS or proxy_bypass(host):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _code(status: int) -> ExitCode:
    if status >= 500 or status == 429:
        return ExitCode.UNAVAILABLE
    if status == 404:
        return ExitCode.NOT_FOUND
    return ExitCode.FAILED if status == 409 else ExitCode.USAGE
