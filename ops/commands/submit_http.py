"""Submitting and asking over HTTP, as any client of the API does it."""

from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx

from turnstile.config.settings import LOCAL_HOSTS, Settings
from turnstile.errors import SET_BY_LOCAL_ENV
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode

TIMEOUT_SECONDS = 30.0
LONGEST_WAIT_SECONDS = 20.0
"""What a read asks the API to wait: less than its own time-out, and than the usual proxy's."""

ATTEMPTS = 3


class ApiClient:
    """The API at `settings.api_url`. Problems become CommandErrors with the code that fits."""

    def __init__(self, settings: Settings) -> None:
        headers = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        self._url = settings.api_url.rstrip("/")
        try:
            host = urlsplit(self._url).hostname
        except ValueError:
            host = None
        if not host:
            raise CommandError(f"TURNSTILE_API_URL: {self._url!r} is no URL", ExitCode.USAGE)
        # A proxy of the environment cannot reach this machine's own loopback.
        self._client = httpx.AsyncClient(
            base_url=self._url, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=host not in LOCAL_HOSTS
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def submit(self, session_id: str, body: dict[str, Any], idempotency_key: str) -> tuple[dict[str, Any], bool]:
        """Submits a turn; the answer, and whether it is that of an earlier, equal request.

        The key makes it safe to ask again when the connection broke before the answer came.
        """
        for attempt in range(ATTEMPTS):
            try:
                response = await self._client.post(
                    f"/v1/sessions/{quote(session_id, safe='')}/turns",
                    json=body,
                    headers={"Idempotency-Key": idempotency_key},
                )
            except httpx.ConnectError as error:
                raise self._away(error) from error
            except httpx.HTTPError as error:
                if attempt == ATTEMPTS - 1:
                    raise self._away(error) from error
                continue
            break
        return self._read(response), response.headers.get("Idempotency-Replayed") == "true"

    async def read(self, turn_id: str, *, wait_seconds: float = 0.0) -> dict[str, Any]:
        """The turn as it is now; or once it has ended, if that is within `wait_seconds`."""
        wait = {"wait": min(wait_seconds, LONGEST_WAIT_SECONDS)} if wait_seconds else {}
        try:
            return self._read(await self._client.get(f"/v1/turns/{turn_id}", params=wait))
        except httpx.HTTPError as error:
            raise self._away(error) from error

    def _read(self, response: httpx.Response) -> dict[str, Any]:
        try:
            document = response.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise CommandError(
                f"{self._url} answered {response.status_code}, but not as a Turnstile API does", ExitCode.UNAVAILABLE
            )
        if response.is_success:
            return document
        if response.status_code == 401:
            raise CommandError(f"401: {self._said_of_the_key()}", ExitCode.USAGE)
        said = document.get("detail") or document.get("title") or "refused"
        # Two things are answered with 422; one of them is a queue that is not there.
        unknown_queue = str(document.get("type")).endswith("unknown-queue")
        code = ExitCode.NOT_FOUND if unknown_queue else _code(response.status_code)
        raise CommandError(f"{response.status_code}: {said}", code)

    def _said_of_the_key(self) -> str:
        if "Authorization" in self._client.headers:
            return "the API does not know the key in TURNSTILE_API_KEY"
        return f"the API wants a key, and TURNSTILE_API_KEY is not set: {SET_BY_LOCAL_ENV}"

    def _away(self, error: httpx.HTTPError) -> CommandError:
        reason = str(error) or type(error).__name__
        return CommandError(f"the API at {self._url} does not answer: {reason}", ExitCode.UNAVAILABLE)


def _code(status: int) -> ExitCode:
    if status >= 500 or status == 429:
        return ExitCode.UNAVAILABLE
    if status == 404:
        return ExitCode.NOT_FOUND
    return ExitCode.FAILED if status == 409 else ExitCode.USAGE
