"""Rules of the store machine: what workers and handlers call."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.model.pair import Asked, Claims, recent
from tests.model.store_state import ALL_SESSIONS, QUEUES, RECENT, SESSIONS, WANTS, StoreState
from tests.statements.calls import LEASE_SECONDS, RESEND_SECONDS, SETTLEMENTS, terms
from turnstile.statements.claim import Claim, ClaimRequest, ClaimTerms, claim
from turnstile.statements.once_values import record_value
from turnstile.statements.settle import Settled, SettleRequest, settle
from turnstile.statements.start_children import read_children
from turnstile.statements.submit import ParentClaim, Submission, submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import JoinPolicy

MAX_CRASHES = 2
"""So that few examples are wasted on the way to a crash loop."""

WORKERS = st.sampled_from(["worker-a", "worker-b"])
HALTS = st.sampled_from([False, False, True])


class WorkerRules(StoreState):
    """Claims, settles, renewals, children and recorded values."""

    @rule(
        worker=WORKERS,
        queue=QUEUES,
        sessions=st.just(ALL_SESSIONS) | st.lists(SESSIONS, min_size=1, max_size=4, unique=True),
        halt=HALTS,
    )
    def claim(self, worker: str, queue: str, sessions: list[tuple[str, str]], halt: bool) -> None:
        requests = [ClaimRequest(tenant_id=one, session_id=two, claim_id=self._next_id()) for one, two in sessions]
        compensates = worker == "worker-b"
        given = replace(terms(worker, queue, halt=halt), max_crashes=MAX_CRASHES, compensates=compensates)
        self._asked.append((given, requests))
        self._claim(*self._asked[-1])

    @rule(
        queue=QUEUES,
        how=st.lists(st.sampled_from(sorted(SETTLEMENTS)), min_size=4, max_size=4),
        more=st.booleans(),
        seconds=st.sampled_from([0.0, 1.0, LEASE_SECONDS + 1]),
        halt=HALTS,
    )
    def work_through(self, queue: str, how: list[str], more: bool, seconds: float, halt: bool) -> None:
        """A stretch of ordinary work in all sessions: without it few examples would come far."""
        before = len(self._claims)
        self.claim("worker-c", queue, ALL_SESSIONS, halt)
        self.pass_time(seconds)
        claimed = self._claims[before:]
        if claimed:
            self._settle(
                terms(halt=halt),
                [Asked(one, name, more, self._next_id()) for one, name in zip(claimed, how, strict=False)],
            )

    @rule(
        seconds=st.sampled_from([LEASE_SECONDS + 1, LEASE_SECONDS + 1, LEASE_SECONDS]),
        how=st.lists(st.sampled_from(sorted(SETTLEMENTS)), min_size=4, max_size=4),
        more=st.booleans(),
        halt=HALTS,
    )
    def take_over(self, seconds: float, how: list[str], more: bool, halt: bool) -> None:
        """A worker that is gone for about a lease, another in its place, and the first comes back."""
        before = len(self._claims)
        self.claim("worker-a", "turns", ALL_SESSIONS, halt)
        frozen = self._claims[before:]
        self.pass_time(seconds)
        self.mark_lost()
        self.claim("worker-b", "turns", ALL_SESSIONS, halt)
        self.both_stores_are_equal()
        if frozen:
            self.pair.renew(frozen, LEASE_SECONDS)
            asked = [Asked(one, name, more, self._next_id()) for one, name in zip(frozen, how, strict=False)]
            self._settle(terms(halt=halt), asked)

    @precondition(lambda self: self._asked)
    @rule(which=RECENT)
    def claim_again_for_a_lost_answer(self, which: int) -> None:
        given, requests = recent(self._asked, which)
        self._claim(given, requests)

    def _claim(self, given: ClaimTerms, requests: list[ClaimRequest]) -> None:
        fake, real = self.pair.ask(lambda stand: claim(stand.database, given, requests))
        self._remember(fake, real)

    def _remember(self, fake: Sequence[Claim], real: Sequence[Claim]) -> None:
        for one, other in zip(fake, real, strict=True):
            if isinstance(one, ClaimedTurn) and isinstance(other, ClaimedTurn):
                self._claims.append(Claims(one, other))

    @precondition(lambda self: self._claims)
    @rule(
        which=st.lists(RECENT, min_size=1, max_size=3, unique=True),
        how=st.lists(st.sampled_from(sorted(SETTLEMENTS)), min_size=3, max_size=3),
        more=st.booleans(),
        halt=HALTS,
    )
    def settle(self, which: list[int], how: list[str], more: bool, halt: bool) -> None:
        # Some of the claims are stale by now, or settled.
        chosen = self._choose(which)
        asked = [Asked(one, name, more, self._next_id()) for one, name in zip(chosen, how, strict=False)]
        self._settle(terms(halt=halt), asked)

    @precondition(lambda self: self._settled)
    @rule(which=RECENT)
    def settle_again_for_a_lost_answer(self, which: int) -> None:
        self._settle(*recent(self._settled, which))

    def _settle(self, given: ClaimTerms, asked: list[Asked]) -> None:
        self._settled.append((given, asked))
        fake, real = self.pair.ask(
            lambda stand: settle(
                stand.database,
                replace(given, compensates=True),
                [one.of(stand) for one in asked],
            )
        )
        self._remember(
            [answer.next for answer in fake if isinstance(answer, Settled)],
            [answer.next for answer in real if isinstance(answer, Settled)],
        )

    @precondition(lambda self: self._claims)
    @rule(which=st.lists(RECENT, min_size=1, max_size=3, unique=True))
    def renew(self, which: list[int]) -> None:
        self.pair.renew(self._choose(which), LEASE_SECONDS)

    def _choose(self, which: list[int]) -> list[Claims]:
        # Each claim once: which of two different ends of it counts, no statement promises.
        chosen = [recent(self._claims, ago) for ago in which]
        return list({(one.real.id, one.real.fence): one for one in chosen}.values())

    # --- children, values

    @precondition(lambda self: self._claims)
    @rule(which=RECENT, want=WANTS, key=st.sampled_from(["k1", "k2"]))
    def start_a_child(self, which: int, want: dict[str, Any], key: str) -> None:
        parent, child = recent(self._claims, which), replace(self._submission(want), key=None)

        def under(turn: ClaimedTurn) -> Submission:
            return replace(child, parent=ParentClaim(turn.id, turn.fence, key))

        self.pair.ask(lambda stand: submit(stand.database, [under(parent.of(stand))], resend_seconds=RESEND_SECONDS))
        self.pair.ask(lambda stand: read_children(stand.database, parent.real.id))

    @precondition(lambda self: self._claims)
    @rule(
        which=RECENT,
        children=st.lists(st.integers(0, 12), min_size=1, max_size=3),
        policy=st.sampled_from(JoinPolicy),
    )
    def join(self, which: int, children: list[int], policy: JoinPolicy) -> None:
        """Not only one's own children: the statements don't ask whose they are."""
        parent, claim_id = recent(self._claims, which), self._next_id()
        ids = tuple(recent(list(self._tenants), ago) for ago in children)
        joins = replace(SETTLEMENTS["join"], joining=ids, join_policy=policy)

        def of(turn: ClaimedTurn) -> SettleRequest:
            return SettleRequest(turn=turn, settlement=joins, more=False, next_claim_id=claim_id)

        self.pair.ask(lambda stand: settle(stand.database, terms(), [of(parent.of(stand))]))

    @precondition(lambda self: self._claims)
    @rule(which=RECENT, key=st.sampled_from(["k1", "k2"]), value=st.sampled_from(["1", '{"b": [null]}']))
    def record_a_value(self, which: int, key: str, value: str) -> None:
        one = recent(self._claims, which)
        self.pair.ask(lambda stand: record_value(stand.database, one.real.id, one.of(stand).fence, key, value))
