"""Submits and reads turns over HTTP, as any client of the API does."""

import json
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from turnstile.config.settings import Settings
from turnstile.config.validators import LOCAL_HOSTS
from turnstile.errors import SET_BY_LOCAL_ENV
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode

TIMEOUT_SECONDS = 30.0
LONGEST_WAIT_SECONDS = 20.0
"""Longest wait in one read: below TIMEOUT_SECONDS and below the timeout of common proxies."""


class ApiClient:
    """Calls the API at `settings.api_url`. Raises CommandError, with an exit code for the problem."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.api_url.rstrip("/")
        self._proxy = find_proxy(self._url)
        self._key = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}

    async def submit(self, session_id: str, body: dict[str, Any], idempotency_key: str) -> tuple[dict[str, Any], bool]:
        """Submits a turn. Returns the response, and whether it is that of an earlier, equal request."""
        path = f"/v1/sessions/{quote(session_id, safe='')}/turns"
        again = (
            f"; repeat with --idempotency-key {idempotency_key}: if the turn was accepted, it is not submitted twice"
        )
        return await self._ask("POST", path, again, headers={"Idempotency-Key": idempotency_key}, json=body)

    async def read(self, turn_id: str, wait_seconds: float) -> dict[str, Any]:
        """The turn. Returns when it has ended, at the latest after `wait_seconds`, at most LONGEST_WAIT_SECONDS."""
        wait = {"wait": min(wait_seconds, LONGEST_WAIT_SECONDS)} if wait_seconds else {}
        turn, _ = await self._ask("GET", f"/v1/turns/{turn_id}", "", headers={}, params=wait)
        return turn

    async def _ask(
        self, method: str, path: str, hint: str, *, headers: dict[str, str], **request: Any
    ) -> tuple[dict[str, Any], bool]:
        given = {"headers": {**self._key, **headers}, "allow_redirects": False, "proxy": self._proxy, **request}
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(method, f"{self._url}{path}", **given) as response,
            ):
                replayed = response.headers.get("Idempotency-Replayed") == "true"
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            line = f"the API at {self._url} does not answer: "
            if isinstance(error, aiohttp.ClientConnectorError):
                # Never sent. Its own text has aiohttp's words for the connection.
                line += f"{error.os_error.strerror or error}; start one with `turnstile api`, or set TURNSTILE_API_URL"
            else:
                line += f"{str(error) or type(error).__name__}{hint}"
            raise CommandError(line, ExitCode.UNAVAILABLE) from error
        return read_answer(response.status, body, self._url, keyed=bool(self._key)), replayed


def read_answer(status: int, body: bytes, url: str, *, keyed: bool) -> dict[str, Any]:
    """The JSON document of a successful response. Raises CommandError. `keyed`: whether the request had an API key."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise CommandError(f"{url} answered {status}, but not as a Turnstile API does", ExitCode.UNAVAILABLE)
    if 200 <= status < 300:
        return document
    if status == 401:
        refused = "the API does not know this key: correct TURNSTILE_API_KEY"
        missing = f"the API requires a key: set TURNSTILE_API_KEY; {SET_BY_LOCAL_ENV}"
        raise CommandError(f"401: {refused if keyed else missing}", ExitCode.USAGE)
    if status == 404 and not str(document.get("type")).startswith("/problems/"):
        raise CommandError(f"{url} answered {status}, but not as a Turnstile API does", ExitCode.UNAVAILABLE)
    detail = document.get("detail") or document.get("title") or "refused"
    # 422 has several causes; an unknown queue has its own exit code.
    unknown_queue = str(document.get("type")).endswith("unknown-queue")
    raise CommandError(f"{status}: {detail}", ExitCode.NOT_FOUND if unknown_queue else _code(status))


def _code(status: int) -> ExitCode:
    known = {404: ExitCode.NOT_FOUND, 409: ExitCode.FAILED, 429: ExitCode.UNAVAILABLE}
    return known.get(status, ExitCode.UNAVAILABLE if status >= 500 else ExitCode.USAGE)


def find_proxy(url: str) -> str | None:
    """The proxy of the environment for this URL, if any."""
    # Not aiohttp's `trust_env`: it also reads a login from .netrc, and refuses that together with the API key.
    parts = urlsplit(url)
    host = parts.hostname or ""
    # A configured proxy can't reach the loopback of this machine.
    if host in LOCAL_HOSTS or proxy_bypass(host):
        return None
    return getproxies().get(parts.scheme)
