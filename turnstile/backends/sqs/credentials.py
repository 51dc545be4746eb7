"""The AWS credentials of this process, as botocore finds and refreshes them.

botocore asks a server for some of them, and blocks meanwhile: that is done on a thread of its own, beside the event loop. Not to
have credentials is an outage, which passes, and never the end of a worker.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import botocore.session
from botocore.credentials import ReadOnlyCredentials

from turnstile.errors import QueueUnavailableError

FRESH_SECONDS = 60.0
"""botocore is asked again after so long. It replaces credentials ten minutes and more before they end."""


class Credentials:
    """For one event loop."""

    def __init__(self, session: botocore.session.Session) -> None:
        self._session = session
        self._thread = ThreadPoolExecutor(1, "aws-credentials")
        self._found: ReadOnlyCredentials | None = None
        self._found_at = 0.0
        self._search: asyncio.Future[ReadOnlyCredentials | None] | None = None

    def close(self) -> None:
        """Lets go of the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def freeze(self, seconds: float) -> ReadOnlyCredentials:
        """The credentials as they are now. Waits for `seconds` at most, and only where there are none yet.

        Raises QueueUnavailableError.
        """
        if self._found is None or time.monotonic() - self._found_at > FRESH_SECONDS:
            search = self._search or self._begin()
            if self._found is None:
                await self._wait(search, seconds)
        if self._found is None:
            raise QueueUnavailableError("AWS credentials: none are configured")
        return self._found

    async def _wait(self, search: "asyncio.Future[ReadOnlyCredentials | None]", seconds: float) -> None:
        # The search goes on without a caller that waits no longer.
        done, _ = await asyncio.wait({search}, timeout=seconds)
        if not done:
            raise QueueUnavailableError(f"AWS credentials: none within {seconds:g} s")
        if (error := search.exception()) is not None:
            raise QueueUnavailableError(f"AWS credentials: {type(error).__name__}: {error}") from error

    def _begin(self) -> "asyncio.Future[ReadOnlyCredentials | None]":
        try:
            search = asyncio.get_running_loop().run_in_executor(self._thread, self._look)
        except RuntimeError as error:
            raise QueueUnavailableError("AWS credentials: asked for after the end") from error
        search.add_done_callback(self._end)
        self._search = search
        return search

    def _look(self) -> ReadOnlyCredentials | None:
        found = self._session.get_credentials()
        return None if found is None else found.get_frozen_credentials()

    def _end(self, search: "asyncio.Future[ReadOnlyCredentials | None]") -> None:
        self._search = None
        if search.cancelled() or search.exception() is not None:
            # Those that were found before serve on; SQS says when they are over.
            return
        self._found, self._found_at = search.result(), time.monotonic()
