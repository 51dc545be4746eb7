"""Children and joins on the real Postgres, step by step: what a run finds, what a superseded one may not do, who wakes whom."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from tests.statements.test_claim_races import expire_leases, submit_turns
from tests.support.factories import make_claim, make_submission, make_terms, nest
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.handlers.child import Child, ChildFailedError
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.statements.cancel import CancelReason, cancel
from turnstile.statements.claim import claim
from turnstile.statements.join import wake_joined, wake_parents
from turnstile.statements.redrive import revive
from turnstile.statements.settle import Settled, SettleRequest, settle
from turnstile.statements.submit import submit
from turnstile.submit import wake_ups
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.identifiers import start_trace
from turnstile.turn.limits import MAX_SECONDS
from turnstile.turn.settlement import AttemptOutcome, JoinPolicy, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt.child_intake import ChildIntake
from turnstile.worker.attempt.children import MAX_CHILDREN, MAX_INPUT_CHARACTERS, Children
from turnstile.worker.attempt.signals import ClaimLost, JoinPending

RETRY = Settlement(status=TurnStatus.PENDING, outcome=AttemptOutcome.RETRIED, fault=True, error_class="Boom")
FAILURE = Settlement(status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, fault=True, error_class="Boom", error="x")
PARENT = "s"


class NoQueues:
    """SQS is away."""

    def __init__(self) -> None:
        self.asked = 0

    async def send(self, *_: Any) -> None:
        self.asked += 1
        raise QueueUnavailableError("away")


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


@pytest.fixture
def no_queues() -> NoQueues:
    return NoQueues()


@pytest.fixture
def intake(settings: Settings, database: Database, no_queues: NoQueues) -> ChildIntake:
    return ChildIntake(settings, database, cast("MessageQueues", no_queues))


async def straight(call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()


class Family:
    """A parent and its children, each step by hand."""

    def __init__(self, database: Database, settings: Settings, intake: ChildIntake) -> None:
        self.database = database
        self.settings = settings
        self._intake = intake

    async def claim(self, session: str = PARENT) -> ClaimedTurn:
        (turn,) = await claim(self.database, make_terms(self.settings), [make_claim(session)])
        assert isinstance(turn, ClaimedTurn)
        return turn

    def run(self, turn: ClaimedTurn) -> Children:
        """A run of the parent's handler."""
        return Children(turn, self.database, straight, self._intake)

    async def start(self, run: Children, content: Any = "work", **options: Any) -> Child:
        wanted = ("session", "key", "queue", "max_attempts", "timeout_seconds", "expires_in_seconds", "metadata")
        return await run.submit(content, **{**dict.fromkeys(wanted), **options})

    async def settle(self, turn: ClaimedTurn, settlement: Settlement) -> TurnStatus:
        request = SettleRequest(turn=turn, settlement=settlement, more=False, next_claim_id=uuid4())
        (settled,) = await settle(self.database, make_terms(self.settings), [request], json.dumps)
        assert isinstance(settled, Settled)
        return settled.status

    async def join(self, turn: ClaimedTurn, *children: Child, policy: JoinPolicy = JoinPolicy.ALL) -> None:
        """The parent's claim ends; it waits."""
        joining = Settlement(
            status=TurnStatus.PENDING, outcome=AttemptOutcome.JOINED, refund=True, after_seconds=900.0,
            joining=tuple(child.id for child in children), join_policy=policy,
        )  # fmt: skip
        await self.settle(turn, joining)

    async def end(self, child: Child, settlement: Settlement | None = None) -> None:
        """A worker answers the child, or fails, and wakes nobody."""
        reply = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply=f"reply of {child.key}")
        await self.settle(await self.claim(child.session_id), settlement or reply)

    async def row(self, turn_id: UUID) -> dict[str, Any]:
        (row,) = await self.database.fetch(
            "SELECT *, execute_at <= clock_timestamp() AS due FROM turns WHERE id = %(id)s", {"id": turn_id}
        )
        return row

    async def redrive(self, turn: ClaimedTurn) -> ClaimedTurn:
        await revive(
            self.database, [(turn.id, turn.generation)], [start_trace(1)], expires_in_seconds=[900.0], net_seconds=60.0
        )
        return await self.claim()


@pytest.fixture
def family(database: Database, settings: Settings, intake: ChildIntake) -> Family:
    return Family(database, settings, intake)


@pytest.fixture
async def parent(family: Family) -> ClaimedTurn:
    await submit_turns(family.database, family.settings, "one", session_id=PARENT)
    return await family.claim()


# --- submit


async def test_a_later_run_finds_the_same_children(family: Family, parent: ClaimedTurn) -> None:
    first, second = family.run(parent), family.run(parent)
    before = [await family.start(first, "a"), await family.start(first, "b"), await family.start(first, "c", key="k")]

    assert [await family.start(second, one) for one in "ab"] + [await family.start(second, "c", key="k")] == before
    assert len(await family.database.fetch("SELECT 1 FROM turns", {})) == 4


@pytest.mark.parametrize("tenant", ["t", "another"])
async def test_a_turn_under_an_id_that_was_anothers_has_none_of_his_children(
    family: Family, parent: ClaimedTurn, tenant: str
) -> None:
    # The archive took the turn and left its child, whose session goes on; its id may be chosen again.
    his = await family.start(family.run(parent), key="notify")
    await family.end(his)
    for table, column in (("turns", "id"), ("messages", "turn_id")):
        await family.database.fetch(f"DELETE FROM {table} WHERE {column} = %(id)s", {"id": parent.id})  # type: ignore[arg-type]
    again = make_submission(family.settings.queue, "again", turn_id=parent.id, tenant_id=tenant)
    await submit(family.database, [again], net_seconds=60.0)
    (turn,) = await claim(family.database, make_terms(family.settings), [make_claim("again", tenant_id=tenant)])
    assert isinstance(turn, ClaimedTurn)

    mine = await family.start(family.run(turn), key="notify")

    assert mine.id != his.id
    with pytest.raises(JoinPending):
        await family.run(turn).join([mine], "all")


async def test_children_that_are_started_together_are_numbered_in_the_order_of_their_calls(
    family: Family, parent: ClaimedTurn
) -> None:
    run = family.run(parent)

    children = await asyncio.gather(*[family.start(run, f"{n}") for n in range(20)])

    rows = await family.database.fetch(
        "SELECT m.content, t.child_key FROM turns t JOIN messages m ON m.turn_id = t.id WHERE child_key IS NOT NULL", {}
    )
    assert {row["content"]: row["child_key"] for row in rows} == {f"{n}": f"#{n + 1}" for n in range(20)}
    assert len({child.id for child in children}) == 20


async def test_a_call_that_is_repeated_after_a_lost_answer_makes_one_child(family: Family, parent: ClaimedTurn) -> None:
    # Neither run knows of the other's children: both read before anything was there.
    runs = [family.run(parent), family.run(parent)]
    for run in runs:
        await run._read()

    first, second = await asyncio.gather(*[family.start(run) for run in runs])

    assert first == second


async def test_a_superseded_parent_starts_nothing(family: Family, parent: ClaimedTurn) -> None:
    late = family.run(parent)
    await expire_leases(family.database)
    await family.claim()

    with pytest.raises(ClaimLost):
        await family.start(late)

    assert len(await family.database.fetch("SELECT 1 FROM turns", {})) == 1
    assert len(await family.database.fetch("SELECT 1 FROM sessions", {})) == 1


async def test_a_child_in_its_parents_session_is_refused(family: Family, parent: ClaimedTurn) -> None:
    with pytest.raises(ValueError, match="for ever"):
        await family.start(family.run(parent), session=PARENT)


async def test_a_child_in_the_session_of_a_compensation_is_refused(family: Family, parent: ClaimedTurn) -> None:
    with pytest.raises(ValueError, match="is for compensations"):
        await family.start(family.run(parent), session=f"compensation:{uuid4()}")


async def test_a_child_may_stand_in_a_session_that_others_use(family: Family, parent: ClaimedTurn) -> None:
    await submit_turns(family.database, family.settings, "other", session_id="other")

    child = await family.start(family.run(parent), session="other")

    assert ((await family.row(child.id))["seq"], child.session_id) == (2, "other")


@pytest.mark.parametrize(
    "options",
    [
        {"content": ""}, {"content": 5}, {"content": {}}, {"content": {"x": {1}}}, {"content": None},
        {"content": "x" * (MAX_INPUT_CHARACTERS + 1)}, {"session": "no spaces"}, {"session": ""}, {"key": "#1"}, {"key": ""},
        {"max_attempts": 0}, {"max_attempts": 1.5}, {"max_attempts": True},
        {"timeout_seconds": 0}, {"expires_in_seconds": -1}, {"expires_in_seconds": float("nan")},
        {"timeout_seconds": float("inf")}, {"timeout_seconds": MAX_SECONDS + 1}, {"expires_in_seconds": MAX_SECONDS + 1},
        {"metadata": {"x": "y" * 20_000}}, {"metadata": nest(1, 201)}, {"content": nest(1, 201)},
    ],
)  # fmt: skip
async def test_what_no_turn_could_be_is_refused(family: Family, parent: ClaimedTurn, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must|may not|JSON|more than"):
        await family.start(family.run(parent), **options)


async def test_a_queue_must_be_declared(family: Family, parent: ClaimedTurn) -> None:
    with pytest.raises(UnknownQueueError):
        await family.start(family.run(parent), queue="nowhere")


async def test_a_turn_may_not_start_children_without_end(family: Family, parent: ClaimedTurn) -> None:
    run = family.run(parent)
    run._asked_for.update(map(str, range(MAX_CHILDREN)))

    with pytest.raises(ValueError, match="may start"):
        await family.start(run, key="one too many")


async def test_while_sqs_is_away_children_are_started_and_it_is_asked_now_and_then(
    family: Family, parent: ClaimedTurn, no_queues: NoQueues
) -> None:
    run = family.run(parent)

    for _ in range(10):
        await family.start(run)

    assert len(await family.database.fetch("SELECT 1 FROM turns WHERE send_at IS NOT NULL", {})) == 10
    assert no_queues.asked < 10


class OneSilentQueue:
    """`silent` takes nothing before its gate is open, and then refuses; every other queue takes all."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.taken: list[UUID] = []

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> Sequence[OutgoingMessage]:
        if queue == "silent":
            await self.gate.wait()
            raise UnknownQueueError("silent")
        self.taken += [message.wake_up.turn_id for message in messages]
        return messages


@pytest.fixture
def one_silent() -> OneSilentQueue:
    return OneSilentQueue()


@pytest.fixture
def with_silent(settings: Settings, database: Database, one_silent: OneSilentQueue) -> ChildIntake:
    silent = QueueSettings(name="silent", visibility_seconds=4.0)
    both = settings.model_copy(update={"queues": (*settings.queues, silent)})
    return ChildIntake(both, database, cast("MessageQueues", one_silent))


async def test_a_queue_that_is_missing_leaves_the_children_of_no_other_to_the_relay(
    settings: Settings, one_silent: OneSilentQueue, with_silent: ChildIntake
) -> None:
    one_silent.gate.set()
    for number in range(5):
        await with_silent.accept(make_submission("silent", f"silent-{number}"))

    child = await with_silent.accept(make_submission(settings.queue, "other"))

    assert one_silent.taken == [child.turn_id]


async def test_children_of_several_queues_are_sent_for_side_by_side(
    settings: Settings, one_silent: OneSilentQueue, with_silent: ChildIntake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake_ups, "PATIENCE_SECONDS", 60.0)
    # The silent one first, and in one batch with the other: both wait when the first batch begins.
    queues = ("silent", settings.queue)
    started = [asyncio.create_task(with_silent.accept(make_submission(queue, queue))) for queue in queues]

    await until(lambda: one_silent.taken)
    one_silent.gate.set()
    silent, other = await asyncio.gather(*started)

    assert one_silent.taken == [other.turn_id]
    assert silent.queue == "silent"


# --- after a redrive


async def test_a_redriven_parent_keeps_what_succeeded_and_starts_anew_what_did_not(
    family: Family, parent: ClaimedTurn
) -> None:
    run = family.run(parent)
    good, bad, slow = [await family.start(run, key=key) for key in ("good", "bad", "slow")]
    await family.end(good)
    await family.end(bad, FAILURE)
    await family.settle(parent, FAILURE)

    again = family.run(redriven := await family.redrive(parent))
    later = [await family.start(again, key=key) for key in ("good", "bad", "slow")]

    assert (later[0], later[2]) == (good, slow)
    assert later[1].id != bad.id
    assert await family.start(family.run(redriven), key="bad") == later[1]


async def test_what_was_started_anew_is_not_redriven_as_well(family: Family, parent: ClaimedTurn) -> None:
    bad = await family.start(family.run(parent), key="bad")
    await family.end(bad, FAILURE)
    await family.settle(parent, FAILURE)
    successor = await family.start(family.run(await family.redrive(parent)), key="bad")

    revived = await revive(
        family.database, [(bad.id, 1)], [start_trace(2)], expires_in_seconds=[900.0], net_seconds=60.0
    )

    assert revived == []
    assert ((await family.row(bad.id))["status"], (await family.row(successor.id))["status"]) == ("FAILED", "PENDING")


async def test_a_child_that_was_redriven_in_mid_run_is_not_started_anew(family: Family, parent: ClaimedTurn) -> None:
    bad = await family.start(family.run(parent), key="bad")
    await family.end(bad, FAILURE)
    await family.settle(parent, FAILURE)
    run = family.run(await family.redrive(parent))
    await family.start(run, key="before")
    await revive(family.database, [(bad.id, 1)], [start_trace(2)], expires_in_seconds=[900.0], net_seconds=60.0)

    assert await family.start(run, key="bad") == bad


async def test_a_retry_keeps_a_child_that_failed(family: Family, parent: ClaimedTurn) -> None:
    child = await family.start(family.run(parent), key="bad")
    await family.end(child, FAILURE)
    await family.settle(parent, RETRY)

    assert await family.start(family.run(await family.claim()), key="bad") == child


# --- join


async def test_a_join_of_open_children_ends_the_attempt(family: Family, parent: ClaimedTurn) -> None:
    run = family.run(parent)
    children = [await family.start(run), await family.start(run)]

    with pytest.raises(JoinPending) as pending:
        await run.join(children, "all")

    assert pending.value.children == tuple(child.id for child in children)


async def test_a_join_of_nobody_is_over(family: Family, parent: ClaimedTurn) -> None:
    assert await family.run(parent).join([], "all") == []


@pytest.mark.parametrize("policy", ["any", "first", ""])
async def test_a_join_that_can_never_be_over_is_refused(family: Family, parent: ClaimedTurn, policy: str) -> None:
    with pytest.raises(ValueError, match=r"no child|not a valid"):
        await family.run(parent).join([], policy)


async def test_a_join_of_somebody_elses_turn_is_refused(family: Family, parent: ClaimedTurn) -> None:
    await submit_turns(family.database, family.settings, "other", session_id="other")
    stranger = await family.claim("other")

    with pytest.raises(ValueError, match=str(stranger.id)):
        await family.run(parent).join([Child(stranger.id, "other", "#1")], "all")


async def test_a_failed_child_says_why(family: Family, parent: ClaimedTurn) -> None:
    run = family.run(parent)
    child = await family.start(run, key="bad")
    await family.end(child, FAILURE)

    with pytest.raises(ChildFailedError) as failed:
        await run.join([child], "all")

    assert (failed.value.child, failed.value.status, failed.value.error_class) == (child, "FAILED", "Boom")


# --- waking


async def test_a_waiting_parent_is_due_at_its_expiry_and_not_before(family: Family, parent: ClaimedTurn) -> None:
    await family.join(parent, await family.start(family.run(parent)))

    row = await family.row(parent.id)
    assert (row["status"], row["attempt"], row["due"]) == ("PENDING", 0, False)
    assert row["send_at"] >= row["execute_at"]


async def test_nobody_is_woken_while_a_child_is_open(family: Family, parent: ClaimedTurn) -> None:
    run = family.run(parent)
    first, second = await family.start(run), await family.start(run)
    await family.join(parent, first, second)
    await family.end(first)

    assert await wake_parents(family.database, [parent.id]) == []
    assert await wake_joined(family.database) == []


@pytest.mark.parametrize(
    "wake",
    [lambda database, parent: wake_parents(database, [parent]), lambda database, _: wake_joined(database)],
    ids=["told", "found"],
)
async def test_the_last_child_makes_its_parent_due(
    family: Family, parent: ClaimedTurn, wake: Callable[..., Awaitable[list[UUID]]]
) -> None:
    child = await family.start(family.run(parent))
    await family.join(parent, child)
    await family.end(child)

    assert await wake(family.database, parent.id) == [parent.id]

    row = await family.row(parent.id)
    assert (row["joining"], row["join_policy"], row["due"], row["sends"]) == (None, None, True, 0)
    assert await family.run(await family.claim()).join([child], "all") == ["reply of #1"]


async def test_of_two_children_that_end_together_one_wakes_the_parent(family: Family, parent: ClaimedTurn) -> None:
    run = family.run(parent)
    children = [await family.start(run) for _ in range(8)]
    await family.join(parent, *children)

    async def end(child: Child) -> list[UUID]:
        await family.end(child)
        return await wake_parents(family.database, [parent.id])

    woken = await asyncio.gather(*[end(child) for child in children])

    assert sum(map(len, woken)) == 1


async def test_a_child_that_ended_before_its_parent_waited_is_seen_by_the_parents_own_look(
    family: Family, parent: ClaimedTurn
) -> None:
    child = await family.start(family.run(parent))
    await family.end(child)
    assert await wake_parents(family.database, [parent.id]) == []

    await family.join(parent, child)

    assert await wake_parents(family.database, [parent.id]) == [parent.id]


@pytest.mark.parametrize(("policy", "wakes"), [(JoinPolicy.ALL, True), (JoinPolicy.ANY, False)])
async def test_a_cancelled_child_ends_all_and_leaves_any_waiting(
    family: Family, parent: ClaimedTurn, policy: JoinPolicy, wakes: bool
) -> None:
    run = family.run(parent)
    first, second = await family.start(run), await family.start(run)
    await family.join(parent, first, second, policy=policy)

    await cancel(family.database, "t", first.id, CancelReason.USER)

    assert (await wake_joined(family.database) == [parent.id]) is wakes


async def test_the_relay_finds_a_join_that_nobody_told_of(
    family: Family, parent: ClaimedTurn, settings: Settings, no_queues: NoQueues
) -> None:
    child = await family.start(family.run(parent))
    await family.join(parent, child)
    await cancel(family.database, "t", child.id, CancelReason.USER)

    await Relay(family.database, cast("MessageQueues", no_queues), settings).round()

    assert (await family.row(parent.id))["due"]


async def test_a_cancelled_parent_waits_for_nobody_and_its_children_go_on(family: Family, parent: ClaimedTurn) -> None:
    child = await family.start(family.run(parent))
    await family.join(parent, child)

    await cancel(family.database, "t", parent.id, CancelReason.USER)
    await wake_joined(family.database)

    row = await family.row(parent.id)
    assert (row["status"], row["joining"], row["send_at"]) == ("CANCELED", None, None)
    assert (await family.row(child.id))["status"] == "PENDING"


async def test_a_parent_that_was_claimed_meanwhile_is_left_running(family: Family, parent: ClaimedTurn) -> None:
    child = await family.start(family.run(parent))
    await family.join(parent, child)
    await family.database.fetch("UPDATE turns SET execute_at = now() WHERE id = %(id)s", {"id": parent.id})
    running = await family.claim()

    await wake_joined(family.database)

    row = await family.row(parent.id)
    assert (row["status"], row["fence"], row["joining"], row["send_at"]) == ("RUNNING", running.fence, None, None)


async def test_a_cancel_that_meets_a_join_wins(family: Family, parent: ClaimedTurn) -> None:
    child = await family.start(family.run(parent))
    await cancel(family.database, "t", parent.id, CancelReason.USER)

    await family.join(parent, child)

    row = await family.row(parent.id)
    assert (row["status"], row["joining"]) == ("CANCELED", None)
