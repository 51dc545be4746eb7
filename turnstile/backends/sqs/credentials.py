"""The AWS credentials of this process. Not to have them is an outage, which passes, and never the end of a worker.

botocore asks its providers once, when the first client is made, and keeps None if a metadata server was silent just then; and it
lets through whatever a provider raises that can't refresh what it gave: an error of STS, of a file, a RuntimeError.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from botocore.credentials import (
    Credentials,
    ReadOnlyCredentials,
    RefreshableCredentials,
    create_credential_resolver,
)
from botocore.exceptions import BotoCoreError, CredentialRetrievalError, NoCredentialsError
from botocore.session import Session

from turnstile.errors import QueueUnavailableError

NEARLY_SECONDS = 60
"""Credentials that end so soon are not signed with: clocks differ, and a call takes a while."""


class SoughtCredentials(Credentials):
    """What botocore's clients sign with: its own chain of providers, asked anew until it has found something. For any thread."""

    def __init__(self, session: Session, region: str | None) -> None:
        super().__init__("", "", method="turnstile")
        self._resolver = create_credential_resolver(session, region_name=region)
        self._found: Credentials | None = None
        self._looks = 0
        self._looking = threading.Lock()

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """Blocks while a server is asked. Raises NoCredentialsError or another BotoCoreError, and nothing else."""
        try:
            return (self._found or self._look()).get_frozen_credentials()
        except BotoCoreError:
            raise
        except Exception as error:
            provider = self._found.method if self._found else "the chain"
            raise CredentialRetrievalError(provider=provider, error_msg=f"{type(error).__name__}: {error}") from error

    def at_hand(self) -> ReadOnlyCredentials | None:
        """Those of now, whichever thread has brought them, be they over or not. Does not block."""
        if not isinstance(self._found, RefreshableCredentials):
            return self._found.get_frozen_credentials() if self._found else None
        found: Any = self._found
        # botocore's own way to them refreshes where it is time to, and makes whoever asks wait for it. A copy of ours would not
        # know that another thread has refreshed them: it was signed with for hours after its end.
        present: ReadOnlyCredentials | None = found._frozen_credentials  # noqa: SLF001
        return present

    def end_within(self, seconds: int | None = None) -> bool:
        """Without `seconds`: whether it is time to refresh them, which botocore begins 15 minutes ahead. Does not block."""
        return isinstance(self._found, RefreshableCredentials) and self._found.refresh_needed(seconds)

    def _look(self) -> Credentials:
        looks = self._looks
        with self._looking:
            # Who waited here shares what came of it: eight threads would ask a silent server one after the other.
            if self._found is None and looks == self._looks:
                try:
                    self._found = self._resolver.load_credentials()
                finally:
                    self._looks += 1
        if self._found is None:
            raise NoCredentialsError
        return self._found


def seek(session: Session, region: str | None) -> SoughtCredentials:
    """Has all clients that the session will make sign with them. `region`: where STS is asked, if not where the session says."""
    sought = SoughtCredentials(session, region)
    session.register_component("credential_provider", SimpleNamespace(load_credentials=lambda: sought))
    return sought


class CredentialsAside:
    """The same for an event loop: servers are asked on a thread of their own, because the loop's are taken by handlers.

    botocore's own clients, the heartbeat's too, wait for a refresh from ten minutes before the end on, however long it hangs.
    """

    def __init__(self, sought: SoughtCredentials) -> None:
        self._sought = sought
        self._thread = ThreadPoolExecutor(1, "sqs-credentials")
        self._refresh: asyncio.Future[ReadOnlyCredentials] | None = None

    def close(self) -> None:
        """Lets go of the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def freeze(self, seconds: float) -> ReadOnlyCredentials:
        """Those of now, while a refresh goes on; waits for it, `seconds` at most, only if they are as good as over.

        Raises QueueUnavailableError.
        """
        # Asked in this order: what was at hand before may be what somebody has replaced since.
        if not self._sought.end_within() and (present := self._sought.at_hand()):
            return present
        refresh = self._refresh or self._begin()
        if not self._sought.end_within(NEARLY_SECONDS) and (present := self._sought.at_hand()):
            return present
        # It goes on without whoever waits no longer.
        done, _ = await asyncio.wait({refresh}, timeout=seconds)
        if not done:
            raise QueueUnavailableError(f"AWS credentials: none within {seconds:g} s")
        try:
            return refresh.result()
        except BotoCoreError as error:
            raise QueueUnavailableError(f"AWS credentials: {type(error).__name__}: {error}") from error

    def _begin(self) -> asyncio.Future[ReadOnlyCredentials]:
        try:
            refresh = asyncio.get_running_loop().run_in_executor(self._thread, self._sought.get_frozen_credentials)
        except RuntimeError as error:
            raise QueueUnavailableError("AWS credentials: asked for after the end") from error
        refresh.add_done_callback(self._end)
        self._refresh = refresh
        return refresh

    def _end(self, refresh: asyncio.Future[ReadOnlyCredentials]) -> None:
        self._refresh = None
        if not refresh.cancelled():
            refresh.exception()  # looked at, so that asyncio does not complain where nobody waited for it
