"""Limits at the claim: what has no place is neither claimed nor spends an attempt, and begins when a place comes free."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from structlog.testing import capture_logs

from tests.support.factories import make_submission
from tests.support.probes import until
from tests.support.processors import message_about, processing
from tests.support.redis_hands import OwnSessionLock
from turnstile.backends.postgres.database import Database
from turnstile.config.limit_settings import LimitSettings
from turnstile.config.settings import Settings
from turnstile.handlers.context import Turn
from turnstile.handlers.exceptions import Retry, Snooze
from turnstile.handlers.handler import Handler
from turnstile.limits.fleet_limits import FleetLimits, WaitingSession
from turnstile.limits.rules import Amounts
from turnstile.process.redis_clients import RedisClients
from turnstile.statements.limit_overrides import FleetState, read_fleet_state, set_override
from turnstile.statements.submit import submit
from turnstile.worker.limiting.limited_claims import LimitedClaims
from turnstile.worker.processor import Processor


class Floor:
    """A worker with limits, whose handlers run until the test ends them."""

    processor: Processor

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings = settings
        self._database = database
        self.running: list[str] = []
        self.most = 0
        self.called: list[WaitingSession] = []
        self.raises: Exception | None = None
        self._end: dict[str, asyncio.Event] = {}
        self.tasks: list[asyncio.Task[Any]] = []
        self.is_ending = False
        """From then on no called session begins: its run would outlive the test's database."""

    async def handle(self, turn: Turn, _: Any) -> str:
        name = str(turn.input)
        self.running.append(name)
        self.most = max(self.most, len(self.running))
        await self._end.setdefault(name, asyncio.Event()).wait()
        self.running.remove(name)
        if self.raises is not None:
            raise self.raises
        return "done"

    def end(self, *names: str) -> None:
        for name in names:
            self._end.setdefault(name, asyncio.Event()).set()

    def begin(self, session: WaitingSession) -> bool:
        if self.is_ending:
            return False
        self.called.append(session)
        self.tasks.append(asyncio.create_task(self.processor.take_called(session)))
        return True

    async def submit(self, name: str, session_id: str | None = None, **fields: Any) -> UUID:
        wanted = make_submission(self.settings.queue, session_id or name, name, **fields)
        await submit(self._database, [wanted], resend_seconds=600.0)
        return wanted.turn_id

    def receive(self, turn_id: UUID, session_id: str) -> "asyncio.Task[Any]":
        task = asyncio.create_task(self.processor.process(message_about(turn_id, session_id)))
        self.tasks.append(task)
        return task

    @property
    def limits(self) -> LimitedClaims:
        found = self.processor.claimer.limits
        assert found is not None
        return found

    async def row(self, turn_id: UUID) -> dict[str, Any]:
        [row] = await self._database.fetch(
            "SELECT status, attempt, fence, extract(epoch FROM send_at - now())::float8 AS sends_in,"
            " (SELECT count(*) FROM turn_attempts a WHERE a.turn_id = t.id) AS attempts FROM turns t WHERE id = %(id)s",
            {"id": turn_id},
        )
        return dict(row)


@pytest.fixture
async def floor(settings: Settings, database: Database, request: pytest.FixtureRequest) -> AsyncIterator[Floor]:
    limits = tuple(LimitSettings.model_validate(limit) for limit in request.param)
    limited = settings.model_copy(update={"limits": limits, "redis_prefix": f"{uuid4().hex}:", "lease_seconds": 30.0})
    lock, redis = OwnSessionLock(limited), RedisClients.open(limited)
    made = Floor(limited, database)
    with processing(
        limited, database, lock, "w", Handler(made.handle), redis=redis, begin_called=made.begin
    ) as made.processor:
        yield made
        made.is_ending = True
        made.end(*"abcdef")
        await asyncio.wait_for(asyncio.gather(*made.tasks), 30)
        await made.limits.limiter.finish()
    await lock.close()
    await redis.close()


def limit(*limits: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("floor", [limits], indirect=True)


@limit({"name": "tenants", "key": "tenant", "concurrency": 1})
async def test_a_turn_without_a_place_is_deferred_and_spends_nothing(floor: Floor) -> None:
    first, second = await floor.submit("a"), await floor.submit("b")
    floor.receive(first, "a")
    await until(lambda: floor.running == ["a"])

    # Without its limit the second would run until the end of the test.
    await until(floor.receive(second, "b").done)

    row = await floor.row(second)
    assert (row["status"], row["attempt"], row["fence"], row["attempts"]) == ("PENDING", 0, 0, 0)
    assert 0 < row["sends_in"] < 600


@limit({"name": "tenants", "key": "tenant", "concurrency": 1})
async def test_the_end_of_a_turn_begins_the_session_that_waits_for_its_place(floor: Floor) -> None:
    first, second = await floor.submit("a"), await floor.submit("b")
    floor.receive(first, "a")
    await until(lambda: floor.running == ["a"])
    await floor.receive(second, "b")

    floor.end("a")

    await until(lambda: floor.running == ["b"])
    assert [session.session_id for session in floor.called] == ["b"]
    assert floor.most == 1


@limit({"name": "tenants", "key": "tenant", "concurrency": 1})
async def test_the_next_turn_of_a_session_needs_a_place_of_its_own(floor: Floor) -> None:
    first = await floor.submit("a", "s")
    await floor.submit("b", "s")
    other = await floor.submit("c")
    floor.receive(first, "s")
    await until(lambda: floor.running == ["a"])
    await floor.receive(other, "c")

    floor.end("a", "b", "c")

    async def all_done() -> bool:
        return (await floor.row(other))["status"] == "SUCCEEDED"

    await until(all_done)
    assert floor.most == 1


@limit({"name": "models", "key": "metadata.model", "concurrency": 1, "weight": "metadata.pages"})
async def test_a_limit_by_metadata_counts_each_value_apart(floor: Floor) -> None:
    names = {"a": {"model": "large"}, "b": {"model": "large"}, "c": {"model": "small"}, "d": {}}
    for name, metadata in names.items():
        floor.receive(await floor.submit(name, metadata=metadata), name)

    await until(lambda: len(floor.running) == 3)

    assert set(floor.running) >= {"c", "d"}


@limit({"name": "models", "key": "metadata.model", "concurrency": 1})
async def test_places_of_a_claim_that_found_nothing_come_back(floor: Floor) -> None:
    turn = await floor.submit("a", metadata={"model": "large"})
    floor.end("a")
    await floor.receive(turn, "a")
    await floor.receive(turn, "a")

    following = await floor.submit("b", metadata={"model": "large"})
    floor.receive(following, "b")

    await until(lambda: floor.running == ["b"])


@limit({"name": "rate", "key": "queue", "rate": 0.01, "burst": 1})
async def test_a_rate_gives_the_next_turn_a_time_of_its_own(floor: Floor) -> None:
    first, second = await floor.submit("a"), await floor.submit("b")
    floor.receive(first, "a")
    await until(lambda: floor.running == ["a"])

    await floor.receive(second, "b")

    assert 90 < (await floor.row(second))["sends_in"] <= 101


@limit({"name": "tenants", "key": "tenant", "concurrency": 4})
async def test_without_redis_a_worker_takes_its_share_of_the_places(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> None:
        return None

    monkeypatch.setattr(FleetLimits, "run", away)
    floor.limits.note(FleetState(2, ()))
    for name in "abc":
        turn = await floor.submit(name)
        floor.receive(turn, name)
    await until(lambda: len(floor.running) == 2)
    await until(lambda: sum(task.done() for task in floor.tasks) == 1)

    assert floor.most == 2


@limit({"name": "tenants", "key": "tenant", "concurrency": 1})
async def test_what_an_operator_sets_counts_from_the_next_heartbeat_on(
    floor: Floor, database: Database, superuser: Database
) -> None:
    more = Amounts(concurrency=2, rate=None, burst=None)
    await set_override(superuser, "tenants", "", more, set_by="ann@desk", reason=None)
    floor.limits.note(await read_fleet_state(database))

    for name in "ab":
        floor.receive(await floor.submit(name), name)

    await until(lambda: len(floor.running) == 2)


@limit({"name": "models", "key": "metadata.model", "concurrency": 5})
@pytest.mark.parametrize("raised", [Snooze(after=300, limit="models"), Retry(after=300, limit="models")])
async def test_a_handler_pauses_the_key_of_its_turn_for_all(floor: Floor, raised: Exception) -> None:
    floor.raises = raised
    floor.end("a")
    await floor.receive(await floor.submit("a", metadata={"model": "large"}), "a")

    same = await floor.submit("b", metadata={"model": "large"})
    await floor.receive(same, "b")
    floor.receive(await floor.submit("c", metadata={"model": "small"}), "c")

    await until(lambda: floor.running == ["c"])
    assert (await floor.row(same))["sends_in"] > 250


@limit({"name": "models", "key": "metadata.model", "concurrency": 5})
async def test_a_limit_that_the_turn_does_not_have_is_named_in_the_log(floor: Floor) -> None:
    floor.raises = Snooze(after=300, limit="others")
    floor.end("a")
    with capture_logs() as lines:
        await floor.receive(await floor.submit("a", metadata={"model": "large"}), "a")

    assert [line["limit"] for line in lines if line["event"] == "limit.not_paused"] == ["others"]
