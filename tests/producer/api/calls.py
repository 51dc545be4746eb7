"""What clients send, and what becomes of a turn without a worker."""

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from uuid import UUID, uuid4

from httpx import AsyncClient, Response

from tests.support.factories import make_claim, make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.producer.sharing.fair_places import FairPlaces, NoPlaceError
from turnstile.statements.claim import ClaimedTurn, claim
from turnstile.statements.settle import AttemptOutcome, Settlement, SettleRequest, settle
from turnstile.turn.identifiers import chosen_prefix
from turnstile.turn.status import TurnStatus

KEYS = {"acme": "acme-key-1", "globex": "globex-key-2"}


@contextmanager
def filled(places: FairPlaces) -> Iterator[None]:
    """Tenants that have one place each have all of them, for the duration of the block."""
    with ExitStack() as held:
        with suppress(NoPlaceError):
            for number in itertools.count():
                held.enter_context(places.take(f"tenant-{number}"))
        yield


async def submit(client: AsyncClient, session: str = "s", text: str = "x") -> str:
    return str((await client.post(f"/v1/sessions/{session}/turns", json={"input": text})).json()["id"])


def choose_id(tenant: str = "acme") -> str:
    """A turn id that a client of the tenant may choose."""
    return str(UUID(chosen_prefix(tenant) + uuid4().hex[12:]))


async def pages(client: AsyncClient, path: str, **query: Any) -> AsyncIterator[Response]:
    """All pages of a list, one after the other."""
    while True:
        answer = await client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        yield answer
        query["cursor"] = answer.json()["next_cursor"]
        if query["cursor"] is None:
            return


async def end(database: Database, settings: Settings, session: str, settlement: Settlement) -> None:
    terms = make_terms(settings)
    (claimed,) = await claim(database, terms, [make_claim(session, "acme")])
    assert isinstance(claimed, ClaimedTurn)
    request = SettleRequest(turn=claimed, settlement=settlement, more=False, next_claim_id=uuid4())
    await settle(database, terms, [request])


def succeed(reply: Any) -> Settlement:
    return Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply=reply)
