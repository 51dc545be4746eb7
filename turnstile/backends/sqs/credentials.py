"""The AWS credentials of this process, found and refreshed by botocore.

botocore gets some credentials from a server, and blocks meanwhile, so it runs on a separate thread. Once a process has begun,
missing credentials are a temporary outage and never end it.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import botocore.session
from botocore.credentials import ReadOnlyCredentials

from turnstile.errors import CredentialsMissingError, QueueUnavailableError

FRESH_SECONDS = 60.0
"""Seconds until botocore is called again. It replaces credentials at least ten minutes before they expire."""


class Credentials:
    """The credentials for one event loop."""

    def __init__(self, session: botocore.session.Session) -> None:
        self._session = session
        self._thread = ThreadPoolExecutor(1, "aws-credentials")
        self._found: ReadOnlyCredentials | None = None
        self._found_at = 0.0
        self._search: asyncio.Future[ReadOnlyCredentials | None] | None = None

    def close(self) -> None:
        """Ends the thread, without waiting for it."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def freeze(self, seconds: float) -> ReadOnlyCredentials:
        """The current credentials. Waits only if there are none yet, and `seconds` at most.

        Raises CredentialsMissingError, QueueUnavailableError.
        """
        if self._found is None or time.monotonic() - self._found_at > FRESH_SECONDS:
            search = self._search or self._begin()
            if self._found is None:
                await self._wait(search, seconds)
        if self._found is None:
            raise CredentialsMissingError
        return self._found

    async def _wait(self, search: "asyncio.Future[ReadOnlyCredentials | None]", seconds: float) -> None:
        # The search continues after this caller's timeout.
        done, _ = await asyncio.wait({search}, timeout=seconds)
        if not done:
            raise QueueUnavailableError(f"AWS credentials: none within {seconds:g} s")
        if (error := search.exception()) is not None:
            raise QueueUnavailableError(f"AWS credentials: {type(error).__name__}: {error}") from error

    def _begin(self) -> "asyncio.Future[ReadOnlyCredentials | None]":
        search = asyncio.get_running_loop().run_in_executor(self._thread, self._look)
        search.add_done_callback(self._end)
        self._search = search
        return search

    def _look(self) -> ReadOnlyCredentials | None:
        found = self._session.get_credentials()
        return None if found is None else found.get_frozen_credentials()

    def _end(self, search: "asyncio.Future[ReadOnlyCredentials | None]") -> None:
        self._search = None
        if search.cancelled() or search.exception() is not None:
            # The previous credentials stay in use; SQS refuses them when they have expired.
            return
        self._found, self._found_at = search.result(), time.monotonic()
