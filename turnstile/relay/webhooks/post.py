"""One POST of a webhook, to an address that a client chose (ADR 0021).

The name is resolved once, and aiohttp connects to the addresses that were checked, never to the name again: a resolver that
gives other addresses a moment later gains nothing. The certificate is checked for the name. No redirect is followed, no proxy is
used, no cookie is kept, and only the status of the response is read.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from turnstile.errors import TurnstileError
from turnstile.webhooks.webhook_url import WebhookTarget, is_public

CONCURRENT = 64
"""Posts at a time in a process."""
TOTAL_SECONDS = 15.0
"""Time limit in seconds, from the lookup of the name to the status line."""
CONNECT_SECONDS = 5.0

LookUp = Callable[[str], Sequence[str]]
"""Returns the addresses of a name. Blocks. Raises OSError."""


class NotPostedError(TurnstileError):
    """The post got no status. The message names a class of failures and quotes neither the address nor the receiver."""


class PublicAddresses(AbstractResolver):
    """A resolver that refuses a name if one of its addresses is not allowed."""

    def __init__(self, look_up: LookUp, may_reach: Callable[[str], bool]) -> None:
        self._look_up = look_up
        self._may_reach = may_reach
        # Not the event loop's default threads: handlers fill those, and lookups that hang would cut a worker off from SQS, Redis
        # and Postgres.
        self._threads = ThreadPoolExecutor(CONCURRENT, "webhook-resolver")
        self._lookups: dict[str, asyncio.Future[Sequence[str]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of all families. Raises NotPostedError."""
        # A lookup can't be cancelled. One that hangs occupies one thread, however many posts wait for that name.
        lookup = self._lookups.get(host) or self._begin(host)
        try:
            addresses = await asyncio.shield(lookup)
        except (OSError, UnicodeError):
            addresses = []
        if not addresses or not all(self._may_reach(address) for address in addresses):
            # One reason for both: clients read it, and must not learn which names our network has.
            raise NotPostedError("name has no public address")
        flags = socket.AI_NUMERICHOST
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)
            for address in addresses
        ]

    async def close(self) -> None:
        """Releases the threads; does not wait for a lookup that hangs."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _begin(self, host: str) -> "asyncio.Future[Sequence[str]]":
        lookup = asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, host)
        self._lookups[host] = lookup
        lookup.add_done_callback(lambda _: self._lookups.pop(host))
        return lookup


def _ask_system(host: str) -> Sequence[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class WebhookPost:
    """Sends posts. The arguments are for tests: no setting reaches them."""

    def __init__(
        self,
        *,
        look_up: LookUp = _ask_system,
        may_reach: Callable[[str], bool] = is_public,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._may_reach = may_reach
        self._resolver = PublicAddresses(look_up, may_reach)
        self._tls = tls or ssl.create_default_context()

    async def close(self) -> None:
        """Releases the resolver. Call it when no post is under way."""
        await self._resolver.close()

    async def __call__(self, target: WebhookTarget, headers: Mapping[str, str], body: bytes) -> int:
        """Returns the status of the response. Raises NotPostedError, within TOTAL_SECONDS."""
        sockets: list[socket.socket] = []

        def open_socket(address: aiohttp.AddrInfoType) -> socket.socket:
            # aiohttp does not call the resolver for a host that is an IP address.
            if not self._may_reach(str(address[4][0])):
                raise OSError("address refused")
            sockets.append(socket.socket(*address[:3]))
            return sockets[-1]

        connector = aiohttp.TCPConnector(
            resolver=self._resolver, use_dns_cache=False, ssl=self._tls, socket_factory=open_socket, force_close=True
        )
        timeout = aiohttp.ClientTimeout(total=TOTAL_SECONDS, sock_connect=CONNECT_SECONDS)
        # `encoded`, or aiohttp would rewrite the path and the query.
        url = URL(f"https://{target.authority}{target.path}", encoded=True)
        sent = {"User-Agent": "Turnstile", "Content-Type": "application/json", **headers}
        try:
            # Without `auto_decompress`: a few bytes of a response may unpack to gigabytes.
            async with (
                aiohttp.ClientSession(
                    connector=connector, headers=sent, timeout=timeout, auto_decompress=False
                ) as http,
                http.post(url, data=body, allow_redirects=False) as response,
            ):
                return response.status
        except (aiohttp.ClientError, OSError) as error:
            raise NotPostedError(_reason(error)) from None
        finally:
            # TLS would wait half a minute for the receiver's close_notify; each such post would keep one more file open.
            for each in sockets:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _reason(error: Exception) -> str:
    match error:
        case aiohttp.ClientSSLError():
            return "certificate or TLS refused"
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return "not reachable"
        case TimeoutError():
            return "timeout"
        case aiohttp.ClientResponseError():
            return "no HTTP answer"
        case _:
            return "connection lost"
