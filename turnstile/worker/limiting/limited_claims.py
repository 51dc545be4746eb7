"""Claims behind the limits: a turn has its places and tokens before it is claimed, and nothing is claimed without them.

If a limit depends on the turn's metadata, the head is read first, and the claim takes that turn or none: it may have ended since.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from uuid import UUID, uuid4

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.config.settings import Settings
from turnstile.limits.fleet_limits import FleetLimits, Places, WaitingSession
from turnstile.limits.rules import LimitRules, Want
from turnstile.statements.claim import Claim, ClaimRequest
from turnstile.statements.limit_overrides import FleetState
from turnstile.statements.peek_heads import Head, peek_heads
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.limiting.limiter import Limiter, deferral

AskClaim = Callable[[ClaimRequest], Awaitable[Claim]]

PEEK_BATCH = 50


@dataclass(frozen=True, slots=True)
class Limited:
    """A limit refused the head: the session must be deferred for so long."""

    limit: str
    seconds: float


class LimitedClaims:
    """Asks the limits before the claims of one worker."""

    def __init__(
        self,
        rules: LimitRules,
        limiter: Limiter,
        database: Database,
        queue: str,
    ) -> None:
        self._rules = rules
        self.limiter = limiter
        self._queue = queue
        self._heads: Batcher[ClaimRequest, Head | None] = Batcher(
            partial(peek_heads, database, queue), limit=PEEK_BATCH, lanes=2
        )
        life = uuid4().hex
        self._ids = (f"{life}-{number}" for number in count(1))
        self._taken: dict[UUID, Places] = {}
        """What is taken for claims whose result is not known yet, or not picked up."""

    @classmethod
    def open(
        cls,
        settings: Settings,
        redis: GuardedRedis,
        database: Database,
        *,
        begin_called: Callable[[WaitingSession], bool],
        nudge_relay: Callable[[], None],
    ) -> "LimitedClaims | None":
        """None: no limits are declared. `begin_called`: begins a session for which a limit keeps a place, or returns False."""
        if not settings.limits:
            return None
        fleet = FleetLimits(redis, settings.redis_prefix, settings.lease_seconds)
        limiter = Limiter(fleet, database, begin_called, nudge_relay)
        return cls(LimitRules(settings.limits), limiter, database, settings.queue)

    def note(self, state: FleetState) -> None:
        """Takes what operators have set, and how many workers share the limits while Redis is away."""
        self._rules.overrides = state.amounts
        self.limiter.share.workers = max(1, state.workers)

    async def ask(self, claim: AskClaim, request: ClaimRequest) -> Claim | Limited:
        """Claims by `claim`, unless a limit refuses the turn. The call may be repeated with the same request, as `claim`.

        Raises DatabaseUnavailableError; the claim may have been made, and its places are kept for the next call.
        """
        request, wants = await self._look(request)
        if (earlier := self._taken.get(request.claim_id)) is not None:
            # The earlier call may have made the claim, so this one is never refused.
            self.limiter.keep(earlier)
        elif wants:
            places = Places(next(self._ids), wants)
            refused = await self.limiter.take(places, request.tenant_id, request.session_id)
            if refused is not None:
                return Limited(refused.want.limit, deferral(refused))
            self._taken[request.claim_id] = places
        found = await claim(request)
        if not isinstance(found, ClaimedTurn):
            self._give_back(request.claim_id)
        return found

    def pick_up(self, claim_id: UUID) -> Places | None:
        """What a claim has taken. The caller gives it back."""
        return self._taken.pop(claim_id, None)

    async def _look(self, request: ClaimRequest) -> tuple[ClaimRequest, tuple[Want, ...]]:
        if not self._rules.needs_metadata:
            return request, self._rules.wants(request.tenant_id, self._queue, {})
        head = await self._heads(request)
        if head is None:
            # Nothing to claim, or an earlier call has claimed it and its response was lost.
            return request, ()
        wants = self._rules.wants(request.tenant_id, self._queue, head.metadata)
        return replace(request, turn_id=head.id), wants

    def _give_back(self, claim_id: UUID) -> None:
        if (places := self._taken.pop(claim_id, None)) is not None:
            self.limiter.give_back(places, unused=True)
