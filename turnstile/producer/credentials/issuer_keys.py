"""The public keys of the issuer of JWTs (a JWK set), as an API process remembers them.

They are read again in the background once they are FRESH_SECONDS old, and at once when a token names a key that is not among
them: an issuer signs with a new key as soon as it has published it. Anybody can name keys that do not exist, so that happens once
in PAUSE_SECONDS at most. While the issuer is away, its keys stay valid for AWAY_SECONDS.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence

import aiohttp
from jwt import PyJWK, PyJWTError

from turnstile.backends.batcher import Batcher
from turnstile.errors import IssuerUnavailableError
from turnstile.producer.http.log_throttle import Tally

FRESH_SECONDS = 600.0
AWAY_SECONDS = 86_400.0
PAUSE_SECONDS = 10.0
RETRY_SECONDS = 2.0
"""The pause while no keys are known."""
READ_SECONDS = 3.0
MOST_BYTES = 262_144
MOST_CALLERS = 10_000

Keys = Mapping[str | None, PyJWK]
"""By their ids (`kid`)."""


class IssuerKeys:
    """Finds the issuer's keys by their ids. One per process. `clock` is monotonic, in seconds."""

    def __init__(self, url: str, http: aiohttp.ClientSession, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._http = http
        self._clock = clock
        self._keys: Keys | None = None
        self._read_at = 0.0
        self._next_at = clock()
        self._asking: Batcher[None, None] = Batcher(self._ask, limit=MOST_CALLERS)
        self._failed = Tally("api.issuer_away")

    async def find(self, key_id: str | None) -> PyJWK | None:
        """The key with this id; None if the issuer has none. Raises IssuerUnavailableError if nobody can say."""
        now = self._clock()
        known = None if self._keys is None or now >= self._read_at + AWAY_SECONDS else self._keys
        may_ask = now >= self._next_at
        if known is not None and key_id in known:
            if may_ask and now >= self._read_at + FRESH_SECONDS:
                self._asking(None)
            return known[key_id]
        if may_ask:
            await self._asking(None)
        if self._keys is None or self._clock() >= self._read_at + AWAY_SECONDS:
            raise IssuerUnavailableError
        return self._keys.get(key_id)

    async def _ask(self, callers: Sequence[None]) -> Sequence[None]:
        now = self._clock()
        # Callers that came during the last read have waited for its end, and need no other one.
        if now >= self._next_at:
            try:
                self._keys = read_keys(await self._fetch())
                self._read_at = now
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                # No text of the issuer's: only what kind of error it is.
                self._failed.note(error=type(error).__name__)
            self._next_at = self._clock() + (RETRY_SECONDS if self._keys is None else PAUSE_SECONDS)
        return [None] * len(callers)

    async def _fetch(self) -> bytes:
        timeout = aiohttp.ClientTimeout(total=READ_SECONDS)
        async with self._http.get(self._url, timeout=timeout, allow_redirects=False) as response:
            if response.status != 200:
                raise ValueError(f"status {response.status}")
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise ValueError(f"more than {MOST_BYTES} bytes")
        return bytes(body)


def read_keys(document: bytes) -> Keys:
    """The keys that may verify a signature. Raises ValueError for what is not a JWK set.

    Keys of a kind that this program does not know are left out: an issuer may have some for others. So are secrets that are not
    public keys (`oct`), whoever put them there.
    """
    try:
        given = json.loads(document)["keys"]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError("not a JWK set") from error
    found: dict[str | None, PyJWK] = {}
    for one in given if isinstance(given, list) else []:
        if not isinstance(one, dict) or one.get("kty") == "oct" or one.get("use") not in {None, "sig"}:
            continue
        try:
            key = PyJWK.from_dict(one)
        except (PyJWTError, TypeError, ValueError):
            continue
        found[key.key_id if isinstance(key.key_id, str) else None] = key
    if not found:
        raise ValueError("no usable key")
    return found
