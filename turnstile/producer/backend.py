"""The services that the routes use, and the dependency that finds them."""

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from turnstile.backends.shared_answer import SharedAnswer
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.producer.batch_intake import BatchIntake
from turnstile.producer.cancel_intake import Cancelling
from turnstile.producer.credentials.credentials import Credentials
from turnstile.producer.credentials.use_log import UseLog
from turnstile.producer.http.refused_keys import RefusedKeys
from turnstile.producer.rates.rate_limits import RateLimits
from turnstile.producer.sharing.fair_lanes import FairPool
from turnstile.producer.sharing.fair_places import FairPlaces
from turnstile.producer.sharing.seen_tenants import SeenTenants
from turnstile.producer.submit_intake import Intake
from turnstile.producer.watch.session_watch import SessionWatch
from turnstile.producer.watch.turn_watch import TurnWatch
from turnstile.streaming.stream import EventReader
from turnstile.submission.wake_ups import WakeUpSending


@dataclass(frozen=True, slots=True)
class Backend:
    """The composition root stores it in `app.state.backend`."""

    settings: Settings
    credentials: Credentials
    use_log: UseLog
    """Which credential has called which route."""
    tenants: SeenTenants
    """Those that have called: where several do, they share the process."""
    rates: RateLimits | None
    """None: no rate is limited."""
    intake: Intake
    batches: BatchIntake
    sending: WakeUpSending
    cancelling: Cancelling
    queues: MessageQueues
    requests: FairPlaces
    """For the requests of tenants that are in progress, from the whole request to the end of its response."""
    reads: FairPool
    """For reads of turns and sessions by id."""
    tokens: FairPool
    """For new browser tokens."""
    lists: FairPool
    """For reads with filters that the caller chooses; these may be slow."""
    events: EventReader
    watch: TurnWatch
    sessions: SessionWatch
    places: FairPlaces
    """For event streams and waits."""
    refused_keys: RefusedKeys
    """Records the requests without a valid credential."""
    is_ready: SharedAnswer[bool]
    """The check of Postgres and its tables, which requests of `/readyz` share."""


# A coroutine although it awaits nothing: FastAPI would run a plain function on a thread for each request.
async def find_backend(request: Request) -> Backend:
    return cast("Backend", request.app.state.backend)


FoundBackend = Annotated[Backend, Depends(find_backend)]
