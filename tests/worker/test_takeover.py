"""Takeover: lost turns begin again without a message, and those one crash short of their limit run alone."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from tests.support.factories import make_claim, make_submission
from tests.support.probes import until
from tests.support.processors import Noting, message_about, processing
from tests.support.redis_hands import OwnSessionLock
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.context import Turn
from turnstile.handlers.handler import Handler
from turnstile.statements.claim import ClaimTerms, claim
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.consumer import Consumer
from turnstile.worker.processor import Processor
from turnstile.worker.session_lock import SessionLock
from turnstile.worker.slots.slots import Slots
from turnstile.worker.takeover import Takeover
from turnstile.worker.turns_in_flight import TurnsInFlight

SLOTS = 4
LAST_LIFE = 2
"""Crashes of a turn that one more would end."""


class Silence(Noting):
    """A queue without messages."""

    async def receive(self, *_: Any, **__: Any) -> list[Any]:
        await asyncio.Event().wait()
        return []


class Ward:
    """A worker with recovery, whose handlers run until the test ends them."""

    processor: Processor
    consumer: Consumer
    recovery: Takeover

    def __init__(self, settings: Settings, database: Database) -> None:
        self.began: list[str] = []
        self.stopping = asyncio.Event()
        self._settings = settings
        self._database = database
        self._let_go: dict[str, asyncio.Event] = {}
        self.going_on: list[asyncio.Task[Any]] = []
        self.stubborn = False

    async def handle(self, turn: Turn, _: Any) -> str:
        self.began.append(turn.session_id)
        gone = self._let_go.setdefault(turn.session_id, asyncio.Event())
        while not gone.is_set():
            try:
                await gone.wait()
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise
        return "done"

    def let_go(self, *sessions: str) -> None:
        for session in sessions or list(self._let_go):
            self._let_go.setdefault(session, asyncio.Event()).set()

    async def submit(self, session_id: str, tenant_id: str = "t", **fields: Any) -> UUID:
        wanted = make_submission(self._settings.queue, session_id, "hello", tenant_id=tenant_id, **fields)
        await submit(self._database, [wanted], resend_seconds=600.0)
        return wanted.turn_id

    async def lose(
        self, session_id: str, *, crashes: int = 1, tenant_id: str = "t", marked: bool = True, **fields: Any
    ) -> UUID:
        """A turn whose worker is lost, marked as the relay does; its next run begins with so many crashes."""
        turn_id = await self.submit(session_id, tenant_id, **fields)
        terms = ClaimTerms(queue=self._settings.queue, worker_id="gone", lease_seconds=60.0, max_crashes=3)
        [turn] = await claim(self._database, terms, [make_claim(session_id, tenant_id=tenant_id)])
        assert isinstance(turn, ClaimedTurn)
        await self._database.fetch(
            "UPDATE turns SET crashes = %(before)s, lease_until = now() - interval '1 s',"
            " send_at = CASE WHEN %(marked)s THEN now() END WHERE id = %(id)s",
            {"before": crashes - 1, "id": turn_id, "marked": marked},
        )
        return turn_id

    async def mark(self) -> None:
        """As the relay does, all at once."""
        await self._database.fetch("UPDATE turns SET send_at = now() WHERE status = 'RUNNING'", {})

    def come_for(self, session_id: str, turn_id: UUID) -> None:
        """A message about the turn is received."""
        message = message_about(turn_id, session_id)
        self.going_on.append(asyncio.create_task(self.processor.process(message)))

    async def row(self, turn_id: UUID) -> dict[str, Any]:
        [row] = await self._database.fetch(
            "SELECT status, attempt, crashes, fence FROM turns WHERE id = %(id)s", {"id": turn_id}
        )
        return dict(row)

    async def succeeded(self, *turn_ids: UUID) -> None:
        async def all_have() -> bool:
            return {(await self.row(turn_id))["status"] for turn_id in turn_ids} == {"SUCCEEDED"}

        await until(all_have)

    async def looked(self, times: int = 3) -> None:
        """Takeover has looked so often since."""
        since = self.looks
        await until(lambda: self.looks >= since + times)

    looks = 0


@pytest.fixture
async def ward(settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ward]:
    lock = OwnSessionLock(settings)
    ward = Ward(settings, database)
    quick = settings.model_copy(
        update={"relay_tick_seconds": 0.05, "concurrency": SLOTS, "lease_seconds": 60.0, "tenant_slots": 3}
    )
    slots = Slots(SLOTS)
    monkeypatch.setattr("turnstile.worker.takeover.OFFER_AGAIN_SECONDS", 0.1)
    look = Takeover._look

    async def counted(recovery: Takeover) -> bool:
        more = await look(recovery)
        ward.looks += 1
        return more

    monkeypatch.setattr(Takeover, "_look", counted)
    queues: Any = Silence()
    with processing(
        quick, database, lock, "w", Handler(ward.handle), slots=slots, takes_over=True, queues=queues
    ) as ward.processor:
        ward.consumer = Consumer(queues, quick.queue, slots, TurnsInFlight(), ward.processor.process, ward.stopping)
        ward.takeover = Takeover(quick, database, ward.consumer, ward.processor)
        running = asyncio.create_task(ward.takeover.run(ward.stopping))
        yield ward
        ward.stopping.set()
        await running
        ward.let_go()
        await asyncio.wait_for(asyncio.gather(ward.consumer.in_flight.finished(), *ward.going_on), 30)
    await lock.close()


async def test_lost_turns_begin_again_without_a_message(ward: Ward) -> None:
    turns = [await ward.lose(session) for session in ("a", "b", "c")]

    await until(lambda: sorted(ward.began) == ["a", "b", "c"])
    ward.let_go("a", "b", "c")

    await ward.succeeded(*turns)
    assert [(row["attempt"], row["crashes"]) for row in [await ward.row(one) for one in turns]] == [(2, 1)] * 3


async def test_of_turns_with_a_crash_one_that_a_crash_would_end_runs_alone(ward: Ward) -> None:
    first = await ward.lose("a", crashes=LAST_LIFE)
    await until(lambda: ward.began == ["a"])
    second = await ward.lose("b", crashes=LAST_LIFE)
    before = await ward.row(second)

    await ward.looked()

    assert ward.began == ["a"]
    assert await ward.row(second) == before, "it is not claimed"
    ward.let_go("a", "b")
    await ward.succeeded(first, second)
    assert ward.began == ["a", "b"]


async def test_a_message_takes_over_a_lost_turn_while_quarantine_has_a_place(ward: Ward) -> None:
    ward.stopping.set()
    turn = await ward.lose("a", crashes=LAST_LIFE)
    ward.let_go("a")

    ward.come_for("a", turn)

    await ward.succeeded(turn)


async def test_a_message_leaves_a_lost_turn_to_recovery_while_quarantine_has_no_place(ward: Ward) -> None:
    await ward.lose("a", crashes=LAST_LIFE)
    await until(lambda: ward.began == ["a"])
    second = await ward.lose("b", crashes=LAST_LIFE)
    before = await ward.row(second)

    ward.come_for("b", second)

    await asyncio.gather(*ward.going_on)
    assert await ward.row(second) == before
    ward.let_go("a", "b")
    await ward.succeeded(second)


async def test_a_handler_that_was_left_behind_keeps_its_place_in_quarantine(ward: Ward) -> None:
    ward.stubborn = True
    first = await ward.lose("a", crashes=LAST_LIFE, timeout_seconds=0.1)
    await until(lambda: ward.began == ["a"])

    async def given_up() -> bool:
        return (await ward.row(first))["status"] != "RUNNING"

    await until(given_up)
    second = await ward.lose("b", crashes=LAST_LIFE)
    await ward.looked()
    assert ward.began == ["a"]

    ward.let_go("a", "b")
    await ward.succeeded(second)


async def test_a_full_worker_takes_over_when_a_slot_is_free(ward: Ward) -> None:
    for number in range(SLOTS):
        session = f"busy-{number}"
        turn_id = await ward.submit(session, tenant_id=f"t{number}")
        message = message_about(turn_id, session, f"t{number}")
        ward.consumer.serve(lambda message=message: ward.processor.process(message))
    await until(lambda: len(ward.began) == SLOTS)
    # It runs alone: a place in quarantine that a look keeps would keep it out for ever.
    lost = await ward.lose("lost", crashes=LAST_LIFE)

    await ward.looked()
    assert "lost" not in ward.began
    ward.let_go("busy-0")

    await until(lambda: "lost" in ward.began)
    ward.let_go("lost")
    await ward.succeeded(lost)


async def test_slots_are_reserved_until_the_last_lost_turn_has_begun(ward: Ward) -> None:
    """A look takes over one turn here. A poll would fill the other slots between two looks."""
    for session in ("a", "b", "c"):
        await ward.lose(session, marked=False)
    kept: list[int] = []
    ward.consumer.keep_free = kept.append  # type: ignore[method-assign]

    await ward.mark()

    await until(lambda: len(ward.began) == 3)
    assert [slots for slots in kept if slots] == [2, 1]


async def test_recovery_gives_a_tenant_at_its_cap_no_more_slots(ward: Ward) -> None:
    sessions = [f"s{number}" for number in range(6)]
    turns = [await ward.lose(session) for session in sessions]
    await until(lambda: len(ward.began) == 3)
    kept: list[int] = []
    ward.consumer.keep_free = kept.append  # type: ignore[method-assign]

    await ward.looked()

    assert len(ward.began) == 3
    assert set(kept) == {0}, "the slot that is left is for other tenants' messages"
    ward.let_go(*sessions)
    await ward.succeeded(*turns)


async def test_a_refused_look_is_logged_and_repeated(ward: Ward, database: Database, superuser: Database) -> None:
    kept: list[int] = []
    ward.consumer.keep_free = kept.append  # type: ignore[method-assign]
    with capture_logs() as lines:
        await superuser.fetch("ALTER TABLE turns RENAME TO turns_elsewhere", {})
        try:
            await until(lambda: _refused_looks(lines))
            kept.clear()
            await until(lambda: kept)
        finally:
            await superuser.fetch("ALTER TABLE turns_elsewhere RENAME TO turns", {})

    assert kept[0] == 0, "nothing is known to wait for a slot"
    lost = await ward.lose("a")
    await until(lambda: "a" in ward.began)
    ward.let_go("a")
    await ward.succeeded(lost)


def _refused_looks(lines: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [
        line
        for line in lines
        if line["event"] == "relay.step_failed" and line["step"] == "take_over" and line["log_level"] == "error"
    ]


async def test_a_failed_takeover_gives_its_place_in_quarantine_back(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = SessionLock.acquire
    broken: list[str] = []

    async def break_once(lock: SessionLock, session: Any) -> Any:
        if not broken:
            broken.append("once")
            raise RuntimeError("a bug")
        return await acquire(lock, session)

    monkeypatch.setattr(SessionLock, "acquire", break_once)

    lost = await ward.lose("a", crashes=LAST_LIFE)

    await until(lambda: broken and "a" in ward.began)
    ward.let_go("a")
    await ward.succeeded(lost)


async def test_a_tenant_at_its_cap_does_not_hide_the_lost_turns_of_others(ward: Ward) -> None:
    """One look reads fewer turns than the tenant has lost."""
    flood = [f"s{number}" for number in range(3 + 2 * SLOTS)]
    turns = [await ward.lose(session) for session in flood]
    await until(lambda: len(ward.began) == 3)

    other = await ward.lose("other", tenant_id="u")

    await until(lambda: "other" in ward.began)
    ward.let_go("other", *flood)
    await ward.succeeded(other, *turns)
