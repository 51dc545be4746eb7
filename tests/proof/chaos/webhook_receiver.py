"""The receiver of a run's webhooks: a TLS server on this machine that verifies and records what it gets, and fails now and then.

It answers as the run's seed says for each event and try: most are taken, some are refused, left without an answer, or cut
off after they have been read. Its moods are over with the faults, and in a calm run it has none.

The product refuses what is not public, and trusts only what its certificates say. In the processes of the run, and nowhere
else, the receiver's name means this machine (`reach_receiver`, called by the fork server): no setting of the product could.
"""

import asyncio
import hashlib
import hmac
import json
import random
import ssl
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook

from tests.proof.chaos.journal import Journal, now
from tests.proof.checker.webhook_evidence import Posted
from tests.proof.checker.webhooks import GONE, TAKEN
from tests.support.fleet.certificates import self_signed

HOST = "hooks.example.com"
LOOPBACK = "127.0.0.1"
SECRET = "whsec_Y2hhb3MtcnVuLXNpZ25zLWl0cy13ZWJob29rcw=="
CERTIFICATE = "CHAOS_WEBHOOK_CERTIFICATE"

TOTAL_SECONDS = 1.5
"""The time-out of a try, instead of the product's 15 s: scaled as the other durations of a run are."""
STAMP_SECONDS = 4 * TOTAL_SECONDS
BACKOFF_SECONDS = (0.2, 1.0)

MOODS = {TAKEN: 78, "500": 9, "hang": 3, "drop": 8, GONE: 2}


class Receiver:
    """One for a run. `moody` while its seed decides what it answers."""

    def __init__(self, journal: Journal, seed: int, *, moody: bool) -> None:
        self.moody = moody
        self.port = 0
        self._journal = journal
        self._seed = seed
        self._tries: Counter[str] = Counter()
        self._closing = asyncio.Event()

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}/turns?token=t0ken"

    def environment(self, certificate: Path) -> dict[str, str]:
        return {
            "TURNSTILE_WEBHOOK_HOSTS": f"{HOST}:{self.port}",
            "TURNSTILE_WEBHOOK_SECRETS": SECRET,
            CERTIFICATE: str(certificate),
        }

    def close(self) -> None:
        self._closing.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, EOFError, ValueError, KeyError, asyncio.LimitOverrunError):
                await self._take(reader, writer)
        finally:
            writer.transport.abort()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        event_id = headers.get("webhook-id", "")
        answer = self._mood(event_id)
        post = Posted(
            at=now(),
            event_id=event_id,
            verified=is_verified(headers, body),
            digest=hashlib.sha256(body).hexdigest(),
            body=_read(body),
            answer=answer,
        )
        # Before the response: when the product counts it as delivered, it is on record.
        self._journal.write(post)
        if answer == "hang":
            await self._closing.wait()
        elif answer != "drop":
            writer.write(f"HTTP/1.1 {answer} As It Is\r\ncontent-length: 0\r\n\r\n".encode())
            await writer.drain()

    def _mood(self, event_id: str) -> str:
        self._tries[event_id] += 1
        if not self.moody:
            return TAKEN
        rng = random.Random(f"{self._seed}/{event_id}/{self._tries[event_id]}")
        [answer] = rng.choices(list(MOODS), list(MOODS.values()))
        return answer


def is_verified(headers: dict[str, str], body: bytes) -> bool:
    """Whether the convention's own library makes one of the signatures.

    Not by its `verify`, which refuses the timestamps of a process whose clock the run has shifted.
    """
    sent_at = datetime.fromtimestamp(int(headers.get("webhook-timestamp", "0")), UTC)
    document = _read(body)
    tenant = document["data"]["tenant_id"] if document else ""
    # The tenant's first secret, derived without the product.
    about = f"turnstile webhook secret\0{tenant}\0001".encode()
    secret = hmac.digest(b64decode(SECRET.removeprefix("whsec_")), about, hashlib.sha256)
    expected = Webhook(secret).sign(headers.get("webhook-id", ""), sent_at, body.decode())
    return expected in headers.get("webhook-signature", "").split(" ")


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


@asynccontextmanager
async def open_receiver(journal: Journal, base: dict[str, str], seed: int, *, moody: bool) -> AsyncIterator[Receiver]:
    """A receiver for as long as the block; `base` is the environment that all processes will have."""
    certificate = await asyncio.to_thread(self_signed, journal.folder / "webhooks.pem", HOST)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    receiver = Receiver(journal, seed, moody=moody)
    server = await asyncio.start_server(receiver.serve, LOOPBACK, 0, ssl=context)
    receiver.port = server.sockets[0].getsockname()[1]
    base |= receiver.environment(certificate)
    try:
        yield receiver
    finally:
        receiver.close()
        server.close()
        await server.wait_closed()


def reach_receiver(certificate: str) -> None:
    """In this process alone: every name is the receiver's, its certificate is trusted, and waits are short."""
    import turnstile.relay.webhooks.delivery
    import turnstile.relay.webhooks.post
    from tests.proof.planted_bugs.patching import replace

    def posting(original: Any) -> Any:
        trusted = ssl.create_default_context(cafile=certificate)
        return lambda: original(look_up=lambda _: [LOOPBACK], may_reach=LOOPBACK.__eq__, tls=trusted)

    replace(turnstile.relay.webhooks.delivery, "WebhookPost", posting)
    replace(turnstile.relay.webhooks.post, "TOTAL_SECONDS", lambda _: TOTAL_SECONDS)
    replace(turnstile.relay.webhooks.delivery, "STAMP_SECONDS", lambda _: STAMP_SECONDS)
    replace(turnstile.relay.webhooks.delivery, "BACKOFF_BASE_SECONDS", lambda _: BACKOFF_SECONDS[0])
    replace(turnstile.relay.webhooks.delivery, "BACKOFF_CAP_SECONDS", lambda _: BACKOFF_SECONDS[1])
