"""Waiting for a turn within a request (G18): `Prefer: wait=N` (RFC 7240) at a submit, `?wait=N` at a read.

It ends the moment the turn does, or when the client goes away; a late answer is fetched by GET.
"""

import asyncio
import re
from uuid import UUID

from starlette.requests import Request

from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.watch.places import NoPlaceError, WatchPlaces
from turnstile.producer.watch.turn_watch import TurnWatch
from turnstile.queries.turns import TurnRecord

LOOK_SECONDS = 2.0
"""How much longer than he asked for somebody waits for a database that does not answer."""

_WAIT = re.compile(r'\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:;.*)?', re.IGNORECASE)


def wanted_wait(prefer: str | None, longest_seconds: float) -> int | None:
    """How many seconds a Prefer header asks to wait, cut to what is allowed; None if it asks nothing of the kind.

    What can't be understood is passed over, as the RFC wants it of a preference. Of two, the first counts.
    """
    for preference in (prefer or "").split(","):
        if matched := _WAIT.fullmatch(preference):
            return min(int(matched[1]), int(longest_seconds))
    return None


async def wait_for_end(
    watch: TurnWatch, places: WatchPlaces, request: Request, tenant_id: str, turn_id: UUID, seconds: float
) -> TurnRecord | None:
    """The turn, if it ends in time. Not waited for any longer when the client has gone, and not at all without a free place."""
    try:
        with places.take(tenant_id):
            return await _wait(watch, request, tenant_id, turn_id, seconds)
    except NoPlaceError:
        return None


async def _wait(watch: TurnWatch, request: Request, tenant_id: str, turn_id: UUID, seconds: float) -> TurnRecord | None:
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            turn = await watch.find(tenant_id, turn_id)
    except (DatabaseUnavailableError, TimeoutError):
        return None
    if turn is None:
        return None
    watching = asyncio.create_task(watch.until_ended(turn, seconds))
    leaving = asyncio.create_task(_until_gone(request))
    try:
        await asyncio.wait({watching, leaving}, timeout=seconds + LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        return watching.result() if watching.done() else None
    finally:
        for task in (watching, leaving):
            task.cancel()


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
