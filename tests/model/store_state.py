"""What the rules of the store machine share: both stores, what was asked of them so far, and the values to draw from."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.model.pair import Asked, Claims, Pair, differences, recent
from tests.statements.calls import LEASE_SECONDS, RESEND_SECONDS
from tests.support.factories import PROVEN
from tests.support.fakes.store_pair import ORIGIN, START_SECONDS
from turnstile.statements.claim import ClaimRequest, ClaimTerms
from turnstile.statements.lost_turns import find_lost, mark_lost
from turnstile.statements.submit import Submission, submit
from turnstile.turn.identifiers import idempotency_key, start_trace

LIMIT = {"limit": 200}
STAMP_SECONDS = 15.0

ALL_SESSIONS = [(tenant, session) for tenant in "tu" for session in "ab"]
SESSIONS = st.sampled_from(ALL_SESSIONS)
"""Few, so that calls meet each other."""
QUEUES = st.sampled_from(["turns", "turns", "turns", "other"])
PAUSES = st.sampled_from([0.5, 5.0, 10.0, STAMP_SECONDS, LEASE_SECONDS, LEASE_SECONDS + 1, RESEND_SECONDS, 4000.0])
WANTS = st.fixed_dictionaries(
    {
        "session": SESSIONS,
        "queue": QUEUES,
        "content": st.sampled_from(["hello", {"text": "x"}, None, [1, 2.5]]),
        "key": st.none() | st.sampled_from(["k1", "k2"]),
        "after": st.sampled_from([None, None, -1.0, 5.0, 30.0]),
        "expires_in_seconds": st.sampled_from([9000.0, 9000.0, 20.0]),
    }
)

RECENT = st.integers(0, 5)
"""How many calls ago."""


class StoreState(RuleBasedStateMachine):
    """Both stores, and what was asked of them so far."""

    pair: Pair

    def __init__(self) -> None:
        super().__init__()
        self._number = 0
        self._seconds = START_SECONDS
        self._tenants: dict[UUID, str] = {}
        self._submitted: list[list[Submission]] = []
        self._asked: list[tuple[ClaimTerms, list[ClaimRequest]]] = []
        self._claims: list[Claims] = []
        self._settled: list[tuple[ClaimTerms, list[Asked]]] = []
        self._taken: list[list[dict[str, Any]]] = []
        self._chosen: list[UUID] = []

    def _next_id(self) -> UUID:
        # Not in the order of their making: nothing may rely on that ids rise.
        self._number += 1
        return UUID(int=(self._number * 0x9E3779B97F4A7C15) % 2**64)

    @initialize(wants=st.lists(WANTS, min_size=2, max_size=6))
    def begin(self, wants: list[dict[str, Any]]) -> None:
        self.pair.reset()
        self.submit(wants, twice=False)

    @invariant()
    def both_stores_are_equal(self) -> None:
        fake, real = self.pair.snapshots()
        for table, rows in real.items():
            found = differences(fake[table], rows)
            assert not found, f"{table}: (row, column, fake, Postgres) {found}"

    def _submission(self, want: dict[str, Any]) -> Submission:
        tenant_id, session_id = want["session"]
        turn_id = self._next_id()
        self._tenants[turn_id] = tenant_id
        return Submission(
            turn_id=turn_id,
            tenant_id=tenant_id,
            session_id=session_id,
            queue=want["queue"],
            content=want["content"],
            fingerprint=json.dumps([session_id, want["content"]]).encode(),
            trace=start_trace(turn_id.int),
            key=want["key"] and idempotency_key(want["key"]),
            execute_at=want["after"] and ORIGIN + timedelta(seconds=self._seconds + want["after"]),
            expires_in_seconds=want["expires_in_seconds"],
        )

    @rule(wants=st.lists(WANTS, min_size=1, max_size=4), twice=st.sampled_from([False, False, True]))
    def submit(self, wants: list[dict[str, Any]], twice: bool) -> None:
        batch = [self._submission(want) for want in wants]
        if twice:
            batch.append(replace(batch[0], key=None))
        self._submitted.append(batch)
        self._submit(self._submitted[-1])

    @rule(which=RECENT)
    def submit_again_for_a_lost_answer(self, which: int) -> None:
        self._submit(recent(self._submitted, which))

    def _submit(self, batch: list[Submission]) -> None:
        self.pair.ask(lambda stand: submit(stand.database, batch, resend_seconds=RESEND_SECONDS))

    @rule(seconds=PAUSES)
    def pass_time(self, seconds: float) -> None:
        self._seconds += seconds
        self.pair.ask(lambda stand: stand.pass_time(seconds))

    def mark_lost(self) -> None:
        """Every lease that is over is a lost worker's."""
        self.pair.ask(lambda stand: mark_lost(stand.database, PROVEN.by, PROVEN.proven_seconds, 200))
        self.pair.ask(lambda stand: find_lost(stand.database, "turns", 100))
