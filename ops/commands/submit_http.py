"""Submitting and asking over HTTP, as any client of the API does it."""

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
"""What a read asks the API to wait: less than its own time-out, and than the usual proxy's."""

ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API answered. `replayed`: as to an earlier, equal request."""

    status: int
    body: bytes
    replayed: bool = False


@asynccontextmanager
async def open_api(settings: Settings) -> AsyncIterator["ApiClient"]:
    """A client of the API at `settings.api_url`. Raises CommandError if that is no URL."""
    url = settings.api_url.rstrip("/")
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, proxy=_find_proxy(url)) as session:
        yield ApiClient(session, url, settings.api_key)


class ApiClient:
    """Calls of the API. Problems become CommandErrors with the code that fits."""

    def __init__(self, session: aiohttp.ClientSession, url: str, api_key: str | None) -> None:
        self._session = session
        self._url = url
        self._key = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    async def submit(self, session_id: str, body: dict[str, Any], idempotency_key: str) -> tuple[dict[str, Any], bool]:
        """Submits a turn; the answer, and whether it is that of an earlier, equal request.

        The key makes it safe to ask again when the connection broke before the answer came.
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
        """The turn as it is now; or once it has ended, if that is within `wait_seconds`."""
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
    """The document of a success. Raises CommandError. `keyed`: whether the request had a key."""
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
    # Two things are answered with 422; one of them is a queue that is not there.
    unknown_queue = str(document.get("type")).endswith("unknown-queue")
    code = ExitCode.NOT_FOUND if unknown_queue else _code(answer.status)
    raise CommandError(f"{answer.status}: {detail}", code)


def _find_proxy(url: str) -> str | None:
    # Not aiohttp's `trust_env`: that also takes a login out of .netrc, and refuses it beside the API's key.
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    if not host:
        raise CommandError(f"TURNSTILE_API_URL: {url!r} is no URL", ExitCode.USAGE)
    # A proxy of the environment cannot reach this machine's own loopback.
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
