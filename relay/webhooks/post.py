"""One POST to an address that a client named, as carefully as that must be done.

The name is resolved once; one address among the answers that is not public refuses them all; and the connection goes to an
address that was judged, never to the name again, so that a resolver that answers otherwise a moment later gains nothing. The
certificate is checked for the name all the same. No redirect is followed, no proxy asked, and of the answer nothing is read
but its status. Python's own `asyncio` and `ssl`: an HTTP client would resolve, redirect and pool by itself.
"""

import asyncio
import socket
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from turnstile.errors import TurnstileError
from turnstile.webhooks.url import WebhookTarget, is_public

TOTAL_SECONDS = 15.0
"""From the resolver to the status line."""
CONNECT_SECONDS = 5.0
"""For each of the addresses."""
MAX_HEADER_BYTES = 16_384
RESOLVER_THREADS = 64
"""How many may post at once without that one waits for another's name."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class NotPostedError(TurnstileError):
    """No status came back; the message is a class of failures in a word or two, and quotes nobody."""


class WebhookPost:
    """Posts. `resolve`, `may_reach` and `tls` are for tests: no setting reaches them."""

    def __init__(
        self,
        *,
        resolve: Resolve | None = None,
        may_reach: Callable[[str], bool] = is_public,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        # Threads of its own: a resolver that hangs must not take up those that others wait for.
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, "webhook-resolver")
        self._hanging: defaultdict[str, set[asyncio.Future[list[str]]]] = defaultdict(set)
        self._resolve = resolve or self._ask_resolver
        self._may_reach = may_reach
        self._tls = tls or ssl.create_default_context()

    def close(self) -> None:
        """Lets go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, target: WebhookTarget, headers: Mapping[str, str], body: bytes) -> int:
        """The status of the answer. Raises NotPostedError, within TOTAL_SECONDS."""
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                addresses = await self._judged_addresses(target)
                return await self._post(addresses, target, _request(target, headers, body))
        except TimeoutError:
            raise NotPostedError("timeout") from None

    async def let_go(self, host: str) -> None:
        """Until no thread asks for this name any more whose post has timed out: nothing can stop it, and it is one of few."""
        if hanging := self._hanging.get(host):
            await asyncio.wait(hanging)

    async def _judged_addresses(self, target: WebhookTarget) -> Sequence[str]:
        try:
            addresses = await self._resolve(target.host, target.port)
        except (OSError, UnicodeError):
            raise NotPostedError("name not resolved") from None
        if not addresses:
            raise NotPostedError("name not resolved")
        if not all(self._may_reach(address) for address in addresses):
            raise NotPostedError("address refused")
        return addresses

    async def _post(self, addresses: Sequence[str], target: WebhookTarget, request: bytes) -> int:
        reader, writer = await self._connect(addresses, target)
        try:
            writer.write(request)
            await writer.drain()
            return await _read_status(reader)
        except (OSError, EOFError):
            raise NotPostedError("connection lost") from None
        finally:
            # Not closed politely: whoever is slow to say goodbye would hold us up.
            writer.transport.abort()

    async def _connect(
        self, addresses: Sequence[str], target: WebhookTarget
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reason = "not reachable"
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(
                        address, target.port, ssl=self._tls, server_hostname=target.host, limit=MAX_HEADER_BYTES
                    )
            except ssl.SSLError:
                reason = "certificate or TLS refused"
            except OSError:
                # TimeoutError is one: on to the next address.
                continue
        raise NotPostedError(reason)

    async def _ask_resolver(self, host: str, port: int) -> Sequence[str]:
        def ask() -> list[str]:
            return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]

        asking = asyncio.get_running_loop().run_in_executor(self._threads, ask)
        try:
            return list(dict.fromkeys(await asyncio.shield(asking)))
        except asyncio.CancelledError:
            self._hanging[host].add(asking)
            asking.add_done_callback(partial(self._forget, host))
            raise

    def _forget(self, host: str, asking: asyncio.Future[list[str]]) -> None:
        self._hanging[host].discard(asking)
        if not self._hanging[host]:
            del self._hanging[host]
        if not asking.cancelled():
            # Looked at, or asyncio says that nobody has.
            asking.exception()


def _request(target: WebhookTarget, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"Host: {target.authority}",
        "User-Agent: Turnstile",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


async def _read_status(reader: asyncio.StreamReader) -> int:
    try:
        while True:
            line = await reader.readuntil(b"\r\n")
            version, _, rest = line.partition(b" ")
            if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit() or rest[3:4] not in (b" ", b"\r"):
                raise NotPostedError("no HTTP answer")
            status = int(rest[:3])
            if status >= 200:
                return status
            # Early hints and the like: the answer comes behind them.
            while await reader.readuntil(b"\r\n") != b"\r\n":
                continue
    except (asyncio.LimitOverrunError, asyncio.IncompleteReadError):
        raise NotPostedError("no HTTP answer") from None
