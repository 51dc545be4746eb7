"""The Hypothesis machine: random calls of the product on both stores, compared answer by answer and table by table."""

from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.model.pair import recent
from tests.model.store_state import LIMIT, PAUSES, RECENT, SESSIONS, STAMP_SECONDS, WANTS
from tests.model.worker_rules import WorkerRules
from tests.statements.calls import RESEND_SECONDS
from tests.support.fakes.store_pair import Stand
from turnstile.errors import SubmissionRefusedError
from turnstile.ops.sessions.halted_session import WayOn, read_halt, retry, skip
from turnstile.queries.session_messages import END_OF_SESSION, read_history, read_history_as_text, read_version
from turnstile.statements.cancel import cancel, cancel_ahead, cancel_session
from turnstile.statements.cancel_before_submit import forget_chosen_ids
from turnstile.statements.defer import Defer, defer
from turnstile.statements.due_messages import DEAD_LETTERED, SET_RESEND_DEADLINE, TAKE_DUE
from turnstile.statements.join import WAKE_JOINED, WAKE_PARENTS
from turnstile.statements.place_scheduled import PLACE_SCHEDULED
from turnstile.statements.revive import read_generations, revive
from turnstile.statements.session_head import WAKE_HEAD
from turnstile.statements.submit import forget_submissions, submit
from turnstile.statements.submit_on_busy import submit_on_busy
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.identifiers import TraceContext, start_trace
from turnstile.turn.on_busy import OnBusy
from turnstile.turn.status import TurnStatus

TAKEOVER_RESEND_SECONDS = 5.0


class StoreMachine(WorkerRules):
    """All rules. Subclassed by its test, which sets `pair`."""

    # --- joins

    @rule(which=st.lists(st.integers(0, 12), min_size=1, max_size=4))
    def wake_some(self, which: list[int]) -> None:
        parents = [recent(list(self._tenants), ago) for ago in which]
        self.pair.ask(lambda stand: stand.database.fetch(WAKE_PARENTS, {"ids": parents}))

    @rule()
    def wake_all(self) -> None:
        self.pair.ask(lambda stand: stand.database.fetch(WAKE_JOINED, LIMIT))

    # --- what comes from outside

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
        self.pair.ask(lambda stand: submit(stand.database, [chosen], resend_seconds=RESEND_SECONDS))

    @rule(session=SESSIONS)
    def cancel_session(self, session: tuple[str, str]) -> None:
        self.pair.ask(lambda stand: cancel_session(stand.database, *session, CancelReason.USER))

    @rule(want=WANTS, on_busy=st.sampled_from(OnBusy), twice=st.sampled_from([False, False, True]))
    def submit_with_a_policy(self, want: dict[str, Any], on_busy: OnBusy, twice: bool) -> None:
        submission = self._submission({**want, "after": None})
        # As the API makes it: the same words with another policy are another request.
        submission = replace(submission, fingerprint=submission.fingerprint + on_busy.encode(), on_busy=on_busy)

        async def send(stand: Stand) -> list[Any]:
            # A list, whose refusals are compared by what they say.
            try:
                texted = await submit_on_busy(stand.database, submission, resend_seconds=RESEND_SECONDS)
            except SubmissionRefusedError as error:
                return [error]
            return [texted.answer, sorted(texted.asked)]

        for _ in range(1 + twice):
            self.pair.ask(send)

    @rule(session=SESSIONS)
    def wake_head(self, session: tuple[str, str]) -> None:
        parameters = {"tenant": session[0], "session": session[1]}
        self.pair.ask(lambda stand: stand.database.fetch(WAKE_HEAD, parameters))

    @rule(sessions=st.lists(SESSIONS, min_size=1, max_size=4), seconds=st.sampled_from([0.0, 5.0, 500.0]))
    def defer(self, sessions: list[tuple[str, str]], seconds: float) -> None:
        wanted = [Defer(*session, seconds) for session in sessions]
        self.pair.ask(lambda stand: defer(stand.database, wanted))

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
        rows = self.pair.fake.tables.turns.values()
        failed = [(row.id, row.generation + off_by) for row in rows if row.status is TurnStatus.FAILED]
        traces = [start_trace(self._next_id().int) for _ in failed]
        expires = [600.0 for _ in failed]
        self.pair.ask(
            lambda stand: revive(
                stand.database, failed, traces, expires_in_seconds=expires, resend_seconds=RESEND_SECONDS
            )
        )
        self.pair.ask(lambda stand: read_generations(stand.database, [turn_id for turn_id, _ in failed]))

    @rule(ways=st.lists(st.sampled_from(WayOn), min_size=4, max_size=4))
    def let_sessions_go_on(self, ways: list[WayOn]) -> None:
        """And try it with what halts nothing."""
        sessions = self.pair.fake.tables.sessions.values()
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
        parameters = {**asked, **lines, "stamp": STAMP_SECONDS, "resend": TAKEOVER_RESEND_SECONDS}
        rows, _ = self.pair.ask(lambda stand: stand.database.fetch(TAKE_DUE, parameters))
        if rows:
            self._taken.append(rows)
            if sent:
                self.say_what_was_sent(0)

    @precondition(lambda self: self._taken)
    @rule(which=RECENT)
    def say_what_was_sent(self, which: int) -> None:
        """A while ago, perhaps: the turns may have moved on."""
        rows = recent(self._taken, which)
        ids = [row["id"] for row in rows]
        deadlines = {
            "ids": ids,
            "stamps": [row["send_at"] for row in rows],
            "resend_after": RESEND_SECONDS,
        }
        letters = {"ids": ids, "generations": [row["generation"] for row in rows]}
        self.pair.ask(lambda stand: stand.database.fetch(SET_RESEND_DEADLINE, deadlines))
        self.pair.ask(lambda stand: stand.database.fetch(DEAD_LETTERED, letters))
