"""The client of the API for asyncio.

    async with AsyncClient("https://turnstile.example", api_key=key) as client:
        async for event in client.session("chat-1").send("hi"):
            ...

Every call may raise ClientError (`turnstile.client.errors`). A call is repeated while the API is away or has no room.
"""

import uuid
from collections.abc import AsyncGenerator, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

import httpx2

from turnstile.backends.jitter import CHANCE
from turnstile.client import batch, calls, following
from turnstile.client.async_shell import AsyncShell
from turnstile.client.documents import (
    BatchTurn,
    BrowserToken,
    CancelAnswer,
    Part,
    SessionCancelAnswer,
    SessionDetail,
    SessionMessage,
    SessionSummary,
    Status,
    Submitted,
    Turn,
    TurnOptions,
    TurnSummary,
    Verb,
)
from turnstile.client.events import Event
from turnstile.client.http_messages import http_settings
from turnstile.client.terms import LOCAL_URL, PATIENCE_SECONDS, Terms, check_session


class AsyncClient:
    """The calls of one tenant, over connections that are kept."""

    def __init__(
        self,
        base_url: str = LOCAL_URL,
        *,
        api_key: str | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`api_key`: a key, a JWT or a token. `patience_seconds`: for how long a call is repeated without success; 0: never.

        `transport` is httpx2's: for certificates of your own, or for tests. Raises ValueError for what is no URL or no key.
        """
        self._http = httpx2.AsyncClient(transport=transport, **http_settings(base_url, api_key))
        self._shell = AsyncShell(self._http)
        self._terms = Terms(base_url, patience_seconds, CHANCE.random)

    @classmethod
    def from_environment(cls) -> Self:
        """With TURNSTILE_API_URL and TURNSTILE_API_KEY. Raises SettingsError."""
        from turnstile.config.api_access import read_api_access

        access = read_api_access()
        return cls(access.api_url, api_key=access.api_key)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    def session(self, session_id: str) -> "AsyncSession":
        """A conversation. Makes no call. Raises ValueError for an id that no session can have."""
        return AsyncSession(self._shell, self._terms, check_session(session_id))

    def sessions(self) -> AsyncGenerator[SessionSummary, None]:
        """The tenant's sessions, newest turn first, read page by page."""
        return self._shell.tell(calls.list_sessions(self._terms))

    async def submit_batch(self, turns: Sequence[BatchTurn]) -> list[batch.Result]:
        """Submits many turns, in few requests. The results are in their order: the turn, or the ProblemError why it was refused.

        The turns of a session keep their order. Give each an `idempotency_key` if your program may submit the same again.
        """
        keys = [uuid.uuid4().hex for _ in turns]
        return await self._shell.run(batch.submit_batch(turns, keys, self._terms))

    async def read(self, turn_id: str) -> Turn:
        """The turn as it is now."""
        return await self._shell.run(calls.read(turn_id, self._terms))

    async def wait(self, turn_id: str, seconds: float) -> Turn:
        """The turn when it has ended, or as it is after `seconds`: look at its `status`."""
        return await self._shell.run(calls.wait(turn_id, seconds, self._terms))

    def follow(self, turn_id: str, after: str | None = None) -> AsyncGenerator[Event, None]:
        """The events of the turn: from the start, or behind the event with the id `after`."""
        return self._shell.tell(following.follow(turn_id, after, self._terms))

    async def cancel(self, turn_id: str) -> CancelAnswer:
        """Cancels the turn; also before its submit, if you have chosen its id."""
        return await self._shell.run(calls.cancel(turn_id, self._terms))

    def turns(self, *, status: Status | None = None, queue: str | None = None) -> AsyncGenerator[TurnSummary, None]:
        """The tenant's turns, newest first, read page by page."""
        return self._shell.tell(calls.list_turns(None, {"status": status, "queue": queue}, self._terms))


class AsyncSession:
    """One conversation: its turns are answered one at a time, in the order in which they were submitted."""

    def __init__(self, shell: AsyncShell, terms: Terms, session_id: str) -> None:
        self._shell = shell
        self._terms = terms
        self.id = session_id

    def send(
        self, content: Any, *, key: str | None = None, **options: Unpack[TurnOptions]
    ) -> AsyncGenerator[Event, None]:
        """Submits a turn and yields its events; the last is its `End`. To stop reading does not cancel the turn."""
        given = key or uuid.uuid4().hex
        return self._shell.tell(following.send(self.id, content, given, options, self._terms))

    async def submit(self, content: Any, *, key: str | None = None, **options: Unpack[TurnOptions]) -> Submitted:
        """Submits a turn. Equal submits with the same `key` are one turn; without a key, each call is one."""
        given = key or uuid.uuid4().hex
        return await self._shell.run(calls.submit(self.id, content, given, options, self._terms))

    async def read(self, include: Sequence[Part] = ()) -> SessionDetail:
        """What a page shows of the session after a reload, read at one moment: the last messages and what `include` names."""
        return await self._shell.run(calls.read_session(self.id, include, self._terms))

    def follow(self, after: str | None = None, *, waits: bool = False) -> AsyncGenerator[Event, None]:
        """The events of the open turns, one turn after the other: each from its `Begin` to its `End`.

        `after`: the id of an event of this stream, to go on behind it. `waits`: also the turns that come later, without an end.
        """
        return self._shell.tell(following.follow_session(self.id, after, self._terms, waits=waits))

    def turns(self, *, status: Status | None = None) -> AsyncGenerator[TurnSummary, None]:
        """The session's turns, newest first, read page by page."""
        return self._shell.tell(calls.list_turns(self.id, {"status": status}, self._terms))

    def messages(self) -> AsyncGenerator[SessionMessage, None]:
        """The messages of the answered turns, newest first, read page by page."""
        return self._shell.tell(calls.list_messages(self.id, self._terms))

    async def cancel(self) -> SessionCancelAnswer:
        """Cancels all open turns. The key needs the role `operate`."""
        return await self._shell.run(calls.cancel_session(self.id, self._terms))

    async def erase(self) -> bool:
        """Erases all that the session has said and was told. It takes some seconds: False once nothing is left.

        The key needs the role `operate`.
        """
        return await self._shell.run(calls.erase(self.id, self._terms))

    async def make_token(self, verbs: Sequence[Verb]) -> BrowserToken:
        """A token with which a page may call the API itself, for this session and a quarter of an hour."""
        return await self._shell.run(calls.make_token(self.id, verbs, self._terms))
