"""The Hypothesis machine of histories: turns end in every way, write-throughs are late or lost, Redis forgets, is away, or
loses its answers, rebuilds come late. Whatever is read is what the table had at the version that it was read for.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import redis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.statements.calls import (
    CANCELED,
    FAILURE,
    LEASE_SECONDS,
    RELEASE,
    RETRY,
    SUCCESS,
    claim_one,
    settle_one,
    submit_one,
)
from tests.statements.store import Store
from turnstile.backends.circuit_breaker import Circuit
from turnstile.backends.redis.connect import connect
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.backends.redis.redis_client import Command, RedisClient, Send
from turnstile.config.settings import Settings
from turnstile.memory.history import History
from turnstile.memory.history_entry import MAX_CONTENT_BYTES, Entry, Owner
from turnstile.queries.session_messages import read_history, read_history_as_text, read_version
from turnstile.statements.revive import revive
from turnstile.statements.settle import Settled, Superseded
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import EMPTY_HISTORY, HistoryVersion, StoredMessage
from turnstile.turn.identifiers import start_trace
from turnstile.turn.settlement import Settlement
from turnstile.turn.status import TurnStatus

SESSIONS = st.sampled_from(["a", "b"])
PROCESSES = st.sampled_from([0, 1])
CONTENTS = st.sampled_from(["hello", {"text": "x"}, None, [], {}, [1, 2.5, {}], "x" * (MAX_CONTENT_BYTES + 1)])
ENDS = st.sampled_from([SUCCESS, FAILURE, RETRY, RELEASE, CANCELED])
LIMITS = st.integers(1, 9)
WHICH = st.integers(0, 4)
"""How many from the end."""
DEPTH = 6
FAILURES = 3
"""So many calls fail, and the wire is mended: with Redis away for long, little happens that could be wrong."""


class FaultyRedis(RedisClient):
    """A client of Redis whose calls arrive, or do not, or arrive and are not answered."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self.reached = True
        self.answers = True
        self.failures = 0

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        if self.reached:
            answers = await self._client.run(commands)
            if self.answers:
                return answers
        self.failures += 1
        if self.failures % FAILURES == 0:
            self.reached = self.answers = True
        raise RedisConnectionError("the wire is broken")

    async def primaries(self) -> list[Send]:
        return [self.run]

    def pubsub(self) -> Any:
        raise AssertionError("no subscription is expected here")

    def leave(self) -> None:
        """There is no other server."""

    async def aclose(self) -> None:
        await self._client.aclose()


class HistoryMachine(RuleBasedStateMachine):
    """Subclassed by its test, which gives it what it works on."""

    runner: asyncio.Runner
    settings: Settings
    store: Store
    keys: redis.Redis
    """A plain client."""

    @initialize()
    def begin(self) -> None:
        self.runner.run(self.store.reset())
        self.flush()
        self.redis = FaultyRedis(connect(self.settings.memory_redis, 1.0))
        self.processes = [self._open_history() for _ in range(2)]
        self.claimed: dict[str, ClaimedTurn] = {}
        self.zombies: list[ClaimedTurn] = []
        self.answered: dict[str, list[HistoryVersion]] = {"a": [], "b": []}
        self.late: list[tuple[ClaimedTurn, StoredMessage]] = []
        self.rebuilds: list[tuple[str, HistoryVersion, Entry]] = []

    def _open_history(self) -> History:
        # Asked again at once: how long it is left alone is tested elsewhere.
        circuit = Circuit(first_pause_seconds=0.0, longest_pause_seconds=0.0)
        return History(self.settings, self.store.database, GuardedRedis("memory", self.redis, 1.0, circuit=circuit))

    def teardown(self) -> None:
        if hasattr(self, "processes"):
            self.runner.run(self.redis.aclose())

    # --- turns

    @rule(session=SESSIONS, content=CONTENTS)
    def submit(self, session: str, content: Any) -> None:
        self.runner.run(submit_one(self.store, content, session_id=session))

    @rule(
        session=SESSIONS, content=CONTENTS, reply=CONTENTS, process=PROCESSES, late=st.booleans(), reads=st.booleans()
    )
    def answer(self, session: str, content: Any, reply: Any, process: int, late: bool, reads: bool) -> None:
        success = replace(SUCCESS, reply=reply)
        self.runner.run(self._end(session, content, success, process=process, late=late, reads=reads))

    @rule(session=SESSIONS, content=CONTENTS, end=ENDS, more=st.booleans(), process=PROCESSES)
    def end(self, session: str, content: Any, end: Settlement, more: bool, process: int) -> None:
        self.runner.run(self._end(session, content, end, more=more, process=process))

    async def _end(
        self,
        session: str,
        content: Any,
        end: Settlement,
        *,
        process: int,
        more: bool = False,
        late: bool = False,
        reads: bool = False,
    ) -> None:
        turn = self.claimed.pop(session, None) or await claim_one(self.store, session_id=session)
        if not isinstance(turn, ClaimedTurn):
            await submit_one(self.store, content, session_id=session)
            turn = await claim_one(self.store, session_id=session)
        if not isinstance(turn, ClaimedTurn):
            return
        if reads:
            await self._check(session, turn.history_version, 5, process)
        settled = await settle_one(self.store, turn, end, more=more)
        assert isinstance(settled, Settled)
        if isinstance(settled.next, ClaimedTurn):
            self.claimed[session] = settled.next
        if settled.status is TurnStatus.SUCCEEDED:
            version = HistoryVersion(turn.seq, turn.claim_id)
            assert version.seq > (self.answered[session] or [EMPTY_HISTORY])[-1].seq, "answered in the order of seq"
            self.answered[session].append(version)
        if settled.reply is not None and late:
            self.late.append((turn, settled.reply))
        elif settled.reply is not None:
            await self.processes[process].append(turn, settled.reply)

    @rule(session=SESSIONS)
    def lose(self, session: str) -> None:
        """A worker is cut off in mid-turn, for longer than its lease."""
        turn = self.claimed.pop(session, None) or self.runner.run(claim_one(self.store, session_id=session))
        if isinstance(turn, ClaimedTurn):
            self.zombies.append(turn)
        self.claimed.clear()
        self.runner.run(self.store.pass_time(LEASE_SECONDS + 1))

    @rule(which=WHICH, process=PROCESSES)
    def a_zombie_comes_back(self, which: int, process: int) -> None:
        if not self.zombies:
            return
        turn = self.zombies[-1 - which % len(self.zombies)]
        self.runner.run(self._check(turn.session_id, turn.history_version, 5, process))
        if turn.session_id not in self.claimed and self.runner.run(self._is_over(turn)):
            settled = self.runner.run(settle_one(self.store, turn, SUCCESS))
            assert isinstance(settled, Superseded)

    async def _is_over(self, turn: ClaimedTurn) -> bool:
        rows = (await self.store.snapshot())["turns"]
        return next(row for row in rows if row["id"] == turn.id)["claim_id"] != turn.claim_id

    @rule()
    def redrive(self) -> None:
        self.runner.run(self._redrive())

    async def _redrive(self) -> None:
        rows = (await self.store.snapshot())["turns"]
        failed: list[tuple[UUID, int]] = [(row["id"], row["generation"]) for row in rows if row["status"] == "FAILED"]
        traces = [start_trace(turn_id.int) for turn_id, _ in failed]
        await revive(self.store.database, failed, traces, expires_in_seconds=[9e4] * len(failed), resend_seconds=60.0)

    # --- what becomes of the cache

    @rule(which=WHICH, process=PROCESSES)
    def a_late_write_through_arrives(self, which: int, process: int) -> None:
        if self.late:
            # It stays in the list: it may arrive again.
            self.runner.run(self._append(process, *self.late[-1 - which % len(self.late)]))

    async def _append(self, process: int, turn: ClaimedTurn, reply: StoredMessage) -> None:
        await self.processes[process].append(turn, reply)

    @rule(session=SESSIONS, which=WHICH)
    def a_rebuild_begins(self, session: str, which: int) -> None:
        if versions := self.answered[session]:
            self.runner.run(self._begin_rebuild(session, versions[-1 - which % len(versions)]))

    async def _begin_rebuild(self, session: str, version: HistoryVersion) -> None:
        found = await read_history_as_text(
            self.store.database, "t", session, limit=DEPTH, before_seq=version.seq + 1, max_bytes=MAX_CONTENT_BYTES
        )
        owner = Owner(self.store.database.contents, "t", session)
        self.rebuilds.append((session, version, Entry.of(found, owner, whole=len(found) < DEPTH)))

    @rule(which=WHICH, process=PROCESSES)
    def a_rebuild_ends(self, which: int, process: int) -> None:
        if self.rebuilds:
            session, version, entry = self.rebuilds.pop(-1 - which % len(self.rebuilds))
            self.runner.run(self.processes[process]._store("t", session, version, entry))

    @rule()
    def flush(self) -> None:
        for key in self.keys.scan_iter(f"{self.settings.redis_prefix}*"):
            self.keys.delete(key)

    @rule()
    def break_the_wire(self) -> None:
        self.redis.reached = False

    @rule()
    def lose_answers(self) -> None:
        self.redis.answers = False

    # --- reads

    @rule(session=SESSIONS, limit=LIMITS, process=PROCESSES)
    def read(self, session: str, limit: int, process: int) -> None:
        self.runner.run(self._read(session, limit, process))

    @rule(session=SESSIONS, limit=LIMITS)
    def read_in_both_at_once(self, session: str, limit: int) -> None:
        async def both() -> None:
            await asyncio.gather(*(self._read(session, limit, process) for process in (0, 0, 1, 1)))

        self.runner.run(both())

    @rule(session=SESSIONS, limit=LIMITS, which=WHICH, process=PROCESSES)
    def read_the_state_of_an_earlier_turn(self, session: str, limit: int, which: int, process: int) -> None:
        if versions := self.answered[session]:
            self.runner.run(self._check(session, versions[-1 - which % len(versions)], limit, process))

    async def _read(self, session: str, limit: int, process: int) -> None:
        version = await read_version(self.store.database, "t", session)
        if version is not None:
            assert version == (self.answered[session] or [EMPTY_HISTORY])[-1]
            await self._check(session, version, limit, process)

    async def _check(self, session: str, version: HistoryVersion, limit: int, process: int) -> None:
        found = await self.processes[process].read("t", session, version, limit)
        table = await read_history(self.store.database, "t", session, limit=limit, before_seq=version.seq + 1)
        assert found == table
