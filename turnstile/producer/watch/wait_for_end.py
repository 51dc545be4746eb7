"""Waits for a turn within a request: `Prefer: wait=N` (RFC 7240) for a submit, `?wait=N` for a read.

The wait ends with the turn or when the client disconnects. After a timeout, the client gets the reply with GET.
"""

import asyncio
import re
from uuid import UUID

from starlette.requests import Request

from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.http.disconnect import half_closed, while_connected
from turnstile.producer.sharing.fair_places import FairPlaces, NoPlaceError
from turnstile.producer.watch.turn_watch import TurnWatch
from turnstile.turn.turn_record import TurnRecord

LOOK_SECONDS = 2.0
"""Extra time allowed for the database beyond the wait that the client requested."""

_WAIT = re.compile(r'\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:;.*)?', re.IGNORECASE)


def wanted_wait(prefer: str | None, longest_seconds: float) -> int | None:
    """The requested wait of a Prefer header in seconds, cut to the allowed maximum; None if it has no `wait`.

    Preferences with wrong syntax are ignored, as the RFC requires. The first valid `wait` counts.
    """
    for preference in (prefer or "").split(","):
        if matched := _WAIT.fullmatch(preference):
            return min(int(matched[1]), int(longest_seconds))
    return None


async def wait_for_end(
    watch: TurnWatch, places: FairPlaces, request: Request, tenant_id: str, turn_id: UUID, seconds: float
) -> TurnRecord | None:
    """The turn, if it ends in time. Does not wait without a free place, and no longer than the client's sending half is open: one
    that has gone would keep its place."""

    async def wait() -> TurnRecord | None:
        turn = await watch.find(tenant_id, turn_id)
        return None if turn is None else await watch.until_ended(turn, seconds)

    try:
        with places.take(tenant_id):
            async with asyncio.timeout(seconds + LOOK_SECONDS):
                return await while_connected(request.receive, wait(), until=half_closed(request.scope))
    except (NoPlaceError, DatabaseUnavailableError, TimeoutError):
        return None
