"""The Hypothesis machine: random calls of the product on both stores, compared answer by answer and table by table."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, LiteralString
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.model.pair import Asked, Claims, Pair, differences, recent
from tests.statements.calls import LEASE_SECONDS, NET_SECONDS, SETTLEMENTS, terms
from tests.support.fakes.store_stands import ORIGIN, START_SECONDS, Stand
from turnstile.errors import SubmissionRefusedError
from turnstile.queries.history import END_OF_SESSION, read_history, read_history_as_text, read_version
from turnstile.statements.cancel import cancel, cancel_ahead, cancel_session
from turnstile.statements.cancel_before_submit import forget_chosen_ids
from turnstile.statements.children import read_children
from turnstile.statements.claim import Claim, ClaimRequest, ClaimTerms, claim
from turnstile.statements.defer import PutOff, put_off
from turnstile.statements.halt import WayOn, read_halt, retry, skip
from turnstile.statements.head import WAKE_HEAD, WAKE_HEAD_UNLESS_HELD
from turnstile.statements.join import WAKE_JOINED, WAKE_PARENTS
from turnstile.statements.lost_turns import MARK_LOST, find_lost
from turnstile.statements.once_values import record_value
from turnstile.statements.redrive import read_generations, revive
from turnstile.statements.send_due import DEAD_LETTERED, PLACE_SCHEDULED, PUT_NET, TAKE_DUE
from turnstile.statements.settle import Settled, SettleRequest, settle
from turnstile.statements.submit import ParentClaim, Submission, forget_submissions, idempotency_key, submit
from turnstile.statements.submit_on_busy import submit_on_busy
from turnstile.statements.worker_registry import SEEN_SECONDS
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import TraceContext, start_trace
from turnstile.turn.on_busy import OnBusy
from turnstile.turn.settlement import JoinPolicy
from turnstile.turn.status import TurnStatus

LIMIT = {"limit": 200}
MAX_CRASHES = 2
"""So that few examples are wasted on the way to a crash loop."""
STAMP_SECONDS = 15.0
RESEND_SECONDS = 5.0

ALL_SESSIONS = [(tenant, session) for tenant in "tu" for session in "ab"]
SESSIONS = st.sampled_from(ALL_SESSIONS)
"""Few, so that calls meet each other."""
QUEUES = st.sampled_from(["turns", "turns", "turns", "other"])
WORKERS = st.sampled_from(["worker-a", "worker-b"])
HALTS = st.sampled_from([False, False, True])
PAUSES = st.sampled_from([0.5, 5.0, 10.0, STAMP_SECONDS, LEASE_SECONDS, LEASE_SECONDS + 1, NET_SECONDS, 4000.0])
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


class StoreMachine(RuleBasedStateMachine):
    """Subclassed by its test, which sets `pair`."""

    pair: Pair

    def __init__(self) -> None:
        super().__init__()
        self._number = 0
        self._seconds = START_SECONDS
        self._tenants: dict[UUID, str] = {}
        self._submitted: list[list[Submission]] = []
        self._asked: list[tuple[ClaimTerms, list[ClaimRequest]]] = []
        self._held: list[Claims] = []
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
    def both_hold_the_same(self) -> None:
        fake, real = self.pair.snapshots()
        for table, rows in real.items():
            found = differences(fake[table], rows)
            assert not found, f"{table}: (row, column, fake, Postgres) {found}"

    # --- submit

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
        self.pair.ask(lambda stand: submit(stand.database, batch, net_seconds=NET_SECONDS))

    # --- claim, renew, settle

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
        before = len(self._held)
        self.claim("worker-c", queue, ALL_SESSIONS, halt)
        self.pass_time(seconds)
        claimed = self._held[before:]
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
        before = len(self._held)
        self.claim("worker-a", "turns", ALL_SESSIONS, halt)
        frozen = self._held[before:]
        self.pass_time(seconds)
        self.mark_lost()
        self.claim("worker-b", "turns", ALL_SESSIONS, halt)
        self.both_hold_the_same()
        if frozen:
            self.pair.renew(frozen, LEASE_SECONDS)
            asked = [Asked(one, name, more, self._next_id()) for one, name in zip(frozen, how, strict=False)]
            self._settle(terms(halt=halt), asked)

    @precondition(lambda self: self._asked)
    @rule(which=RECENT)
    def claim_again_for_a_lost_answer(self, which: int) -> None:
        given, requests = recent(self._asked, which)
        self._claim(given, [replace(request, again=True) for request in requests])

    def _claim(self, given: ClaimTerms, requests: list[ClaimRequest]) -> None:
        fake, real = self.pair.ask(lambda stand: claim(stand.database, given, requests))
        self._hold(fake, real)

    def _hold(self, fake: Sequence[Claim], real: Sequence[Claim]) -> None:
        for one, other in zip(fake, real, strict=True):
            if isinstance(one, ClaimedTurn) and isinstance(other, ClaimedTurn):
                self._held.append(Claims(one, other))

    @precondition(lambda self: self._held)
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
                json.dumps,
            )
        )
        self._hold(
            [answer.next for answer in fake if isinstance(answer, Settled)],
            [answer.next for answer in real if isinstance(answer, Settled)],
        )

    @precondition(lambda self: self._held)
    @rule(which=st.lists(RECENT, min_size=1, max_size=3, unique=True))
    def renew(self, which: list[int]) -> None:
        self.pair.renew(self._choose(which), LEASE_SECONDS)

    def _choose(self, which: list[int]) -> list[Claims]:
        # Each claim once: which of two different ends of it counts, no statement promises.
        chosen = [recent(self._held, ago) for ago in which]
        return list({(one.real.id, one.real.fence): one for one in chosen}.values())

    # --- children, values

    @precondition(lambda self: self._held)
    @rule(which=RECENT, want=WANTS, key=st.sampled_from(["k1", "k2"]))
    def start_a_child(self, which: int, want: dict[str, Any], key: str) -> None:
        parent, child = recent(self._held, which), replace(self._submission(want), key=None)

        def under(turn: ClaimedTurn) -> Submission:
            return replace(child, parent=ParentClaim(turn.id, turn.fence, key))

        self.pair.ask(lambda stand: submit(stand.database, [under(parent.of(stand))], net_seconds=NET_SECONDS))
        self.pair.ask(lambda stand: read_children(stand.database, parent.real.id))

    @precondition(lambda self: self._held)
    @rule(
        which=RECENT,
        children=st.lists(st.integers(0, 12), min_size=1, max_size=3),
        policy=st.sampled_from(JoinPolicy),
    )
    def join(self, which: int, children: list[int], policy: JoinPolicy) -> None:
        """Not only one's own children: the statements don't ask whose they are."""
        parent, claim_id = recent(self._held, which), self._next_id()
        ids = tuple(recent(list(self._tenants), ago) for ago in children)
        joins = replace(SETTLEMENTS["join"], joining=ids, join_policy=policy)

        def of(turn: ClaimedTurn) -> SettleRequest:
            return SettleRequest(turn=turn, settlement=joins, more=False, next_claim_id=claim_id)

        self.pair.ask(lambda stand: settle(stand.database, terms(), [of(parent.of(stand))], json.dumps))

    @rule(which=st.lists(st.integers(0, 12), min_size=1, max_size=4))
    def wake_some(self, which: list[int]) -> None:
        parents = [recent(list(self._tenants), ago) for ago in which]
        self.pair.ask(lambda stand: stand.database.fetch(WAKE_PARENTS, {"ids": parents}))

    @rule()
    def wake_all(self) -> None:
        self.pair.ask(lambda stand: stand.database.fetch(WAKE_JOINED, LIMIT))

    @precondition(lambda self: self._held)
    @rule(which=RECENT, key=st.sampled_from(["k1", "k2"]), value=st.sampled_from(["1", '{"b": [null]}']))
    def record_a_value(self, which: int, key: str, value: str) -> None:
        one = recent(self._held, which)
        self.pair.ask(lambda stand: record_value(stand.database, one.real.id, one.of(stand).fence, key, value))

    # --- what comes from outside

    @rule(seconds=PAUSES)
    def pass_time(self, seconds: float) -> None:
        self._seconds += seconds
        self.pair.ask(lambda stand: stand.pass_time(seconds))

    @rule(which=st.integers(0, 12), reason=st.sampled_from(CancelReason))
    def cancel(self, which: int, reason: CancelReason) -> None:
        turn_id = recent(list(self._tenants), which)
        self.pair.ask(lambda stand: cancel(stand.database, self._tenants[turn_id], turn_id, reason))

    @rule(which=st.integers(0, 12))
    def cancel_ahead(self, which: int) -> None:
        """Of a turn that is there, or of one that may be submitted later."""
        known = list(self._tenants)
        turn_id = recent(known, which) if which % 2 else self._next_id()
        tenant_id = self._tenants.setdefault(turn_id, "t")
        self._chosen.append(turn_id)
        self.pair.ask(lambda stand: cancel_ahead(stand.database, tenant_id, turn_id, CancelReason.USER))

    @precondition(lambda self: self._chosen)
    @rule(want=WANTS, which=RECENT)
    def submit_under_a_chosen_id(self, want: dict[str, Any], which: int) -> None:
        turn_id = recent(self._chosen, which)
        tenant_id = self._tenants[turn_id]
        submission = self._submission({**want, "session": (tenant_id, want["session"][1])})
        chosen = replace(submission, turn_id=turn_id, chosen=True)
        self.pair.ask(lambda stand: submit(stand.database, [chosen], net_seconds=NET_SECONDS))

    @rule(session=SESSIONS)
    def cancel_session(self, session: tuple[str, str]) -> None:
        self.pair.ask(lambda stand: cancel_session(stand.database, *session, CancelReason.USER))

    @rule(want=WANTS, on_busy=st.sampled_from(OnBusy), twice=st.sampled_from([False, False, True]))
    def submit_with_a_policy(self, want: dict[str, Any], on_busy: OnBusy, twice: bool) -> None:
        submission = self._submission({**want, "after": None})
        # As the API makes it: the same words with another policy are another request.
        submission = replace(submission, fingerprint=submission.fingerprint + on_busy.encode())

        async def send(stand: Stand) -> list[Any]:
            # A list, whose refusals are compared by what they say.
            try:
                texted = await submit_on_busy(stand.database, submission, on_busy, net_seconds=NET_SECONDS)
            except SubmissionRefusedError as error:
                return [error]
            return [texted.answer, sorted(texted.asked)]

        for _ in range(1 + twice):
            self.pair.ask(send)

    @rule(session=SESSIONS, statement=st.sampled_from([WAKE_HEAD, WAKE_HEAD_UNLESS_HELD]))
    def wake_head(self, session: tuple[str, str], statement: LiteralString) -> None:
        parameters = {"tenant": session[0], "session": session[1]}
        self.pair.ask(lambda stand: stand.database.fetch(statement, parameters))

    @rule(sessions=st.lists(SESSIONS, min_size=1, max_size=4), seconds=st.sampled_from([0.0, 5.0, 500.0]))
    def put_off(self, sessions: list[tuple[str, str]], seconds: float) -> None:
        wanted = [PutOff(*session, seconds) for session in sessions]
        self.pair.ask(lambda stand: put_off(stand.database, wanted))

    @rule(session=SESSIONS, limit=st.integers(1, 5), age=st.sampled_from([60.0, 2000.0]))
    def read_history_and_forget(self, session: tuple[str, str], limit: int, age: float) -> None:
        self.pair.ask(lambda stand: read_history(stand.database, *session, limit=limit))
        self.pair.ask(lambda stand: read_version(stand.database, *session))
        whole = {"limit": limit, "before_seq": END_OF_SESSION, "max_bytes": 10}
        self.pair.ask(lambda stand: read_history_as_text(stand.database, *session, **whole))
        self.pair.ask(lambda stand: forget_submissions(stand.database, age))
        self.pair.ask(lambda stand: forget_chosen_ids(stand.database, age))

    @rule(off_by=st.sampled_from([0, 0, 0, 1, -1]))
    def revive_what_failed(self, off_by: int) -> None:
        rows = self.pair.fake.fake.tables.turns.values()
        failed = [(row.id, row.generation + off_by) for row in rows if row.status is TurnStatus.FAILED]
        traces = [start_trace(self._next_id().int) for _ in failed]
        expires = [600.0 for _ in failed]
        self.pair.ask(
            lambda stand: revive(stand.database, failed, traces, expires_in_seconds=expires, net_seconds=NET_SECONDS)
        )
        self.pair.ask(lambda stand: read_generations(stand.database, [turn_id for turn_id, _ in failed]))

    @rule(ways=st.lists(st.sampled_from(WayOn), min_size=4, max_size=4))
    def let_sessions_go_on(self, ways: list[WayOn]) -> None:
        """And try it with what halts nothing."""
        sessions = self.pair.fake.fake.tables.sessions.values()
        halting = [session.halted_by for session in sessions if session.halted_by is not None]
        for turn_id, way in zip([*halting, recent(list(self._tenants), 0)], [*ways, WayOn.RETRY], strict=False):
            self.pair.ask(partial(self._let_go_on, turn_id=turn_id, way=way, trace=start_trace(self._next_id().int)))

    async def _let_go_on(self, stand: Stand, turn_id: UUID, way: WayOn, trace: TraceContext) -> Any:
        before = await read_halt(stand.database, turn_id)
        if way is WayOn.SKIP:
            return before, await skip(stand.database, turn_id, requested_by="who")
        return before, await retry(stand.database, turn_id, trace, expires_in_seconds=600, requested_by="who")

    # --- the relay

    @rule(seconds=PAUSES, reach=st.sampled_from([120.0, 1e9, 1e9]), sent=st.booleans())
    def relay(self, seconds: float, reach: float, sent: bool) -> None:
        """A round of it."""
        self.pass_time(seconds)
        asked = {"left_out": [], "only": None}
        place = {**asked, "queues": ["turns", "other"], **LIMIT}
        self.pair.ask(lambda stand: stand.database.fetch(PLACE_SCHEDULED, place))
        self.mark_lost()
        lines = {
            "queues": ["turns", "other", "turns", "other"],
            "deads": [False, False, True, True],
            "limits": [200] * 4,
            "reaches": [reach] * 4,
        }
        parameters = {**asked, **lines, "stamp": STAMP_SECONDS, "resend": RESEND_SECONDS}
        rows, _ = self.pair.ask(lambda stand: stand.database.fetch(TAKE_DUE, parameters))
        if rows:
            self._taken.append(rows)
            if sent:
                self.say_what_was_sent(0)

    def mark_lost(self) -> None:
        """Every lease that is over is a lost worker's."""
        self.pair.ask(lambda stand: stand.database.fetch(MARK_LOST, {**LIMIT, "lease": LEASE_SECONDS}))
        self.pair.ask(lambda stand: find_lost(stand.database, "turns", 100))

    @precondition(lambda self: self._taken)
    @rule(which=RECENT)
    def say_what_was_sent(self, which: int) -> None:
        """A while ago, perhaps: the turns may have moved on."""
        rows = recent(self._taken, which)
        ids = [row["id"] for row in rows]
        nets = {"ids": ids, "stamps": [row["send_at"] for row in rows], "net": NET_SECONDS, "seen": SEEN_SECONDS}
        letters = {"ids": ids, "generations": [row["generation"] for row in rows]}
        self.pair.ask(lambda stand: stand.database.fetch(PUT_NET, nets))
        self.pair.ask(lambda stand: stand.database.fetch(DEAD_LETTERED, letters))
