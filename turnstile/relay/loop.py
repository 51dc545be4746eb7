"""The relay: sends what is due by `send_at`. Wake-ups whose message was lost, scheduled turns, retries, hand-backs, dead
letters, and turns whose lease ran out all go through here; there is no other timer (rule 3).

Any number of relays may run at once. A round takes due rows with SKIP LOCKED and stamps `send_at` ahead, so that a relay
that dies before it sends loses nothing. Each queue's rows are then sent in parallel with the next rounds: a slow or long queue
delays only its own rows. A message that is sent twice costs one extra look at the row.

`statements.owed_messages` has the SQL, `relay.wake_ups_and_dead_letters` the sending.
"""

import asyncio
import math
import time
from collections.abc import Collection, Sequence
from functools import partial

from turnstile.backends.jitter import CHANCE
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.memory.durable_items import prune_items
from turnstile.relay.fault_isolation import LeftOut, alone, fetch_around
from turnstile.relay.lost_workers import LostWorkers
from turnstile.relay.old_turns import DAY_SECONDS, OldTurns, find_kept
from turnstile.relay.queue_selection import BATCH, Ask, Line, RelayQueues, tick_seconds
from turnstile.relay.renewal_evidence import RenewalEvidence
from turnstile.relay.wake_ups_and_dead_letters import Load, RelaySends, Sender
from turnstile.retention.delete_archived import delete_archived
from turnstile.retention.delete_records import delete_records, delete_vanished_workers
from turnstile.statements.browser_tokens import forget_tokens
from turnstile.statements.cancel_before_submit import forget_chosen_ids
from turnstile.statements.join import wake_joined
from turnstile.statements.owed_messages import FIND_DUE, TAKE_DUE, DueRow
from turnstile.statements.paused_queues import read_paused_queues
from turnstile.statements.place_scheduled import FIND_UNPLACED, PLACE_SCHEDULED
from turnstile.statements.submit import forget_submissions
from turnstile.turn.status import TurnStatus

FORGET_EVERY_SECONDS = 60.0


class Relay:
    """The loop. `nudge` starts a round at once, for rows that this process has just made due."""

    def __init__(
        self, database: Database, sender: Sender, settings: Settings, evidence: RenewalEvidence | None = None
    ) -> None:
        self._database = database
        self._lost = LostWorkers(database, settings, evidence)
        self._settings = settings
        self._left_out = LeftOut()
        self._queues = RelayQueues(settings.queues_by_name, settings.relay_stamp_seconds)
        self._sends = RelaySends(database, sender, settings, self._left_out)
        self._under_way: dict[Line, asyncio.Task[None]] = {}
        self._nudged = asyncio.Event()
        self._old_turns = OldTurns(database, settings)
        self._forgot_at = {"records": -math.inf, "turns": -math.inf}
        self._forgetting: dict[str, asyncio.Task[None]] = {}
        self._placed_behind = False
        """Whether turns were placed while a line was being sent, whose rows are taken only after that."""
        self._woke_joined_at = -math.inf
        self._paused: Collection[str] = ()
        self._read_paused_at = -math.inf

    def nudge(self) -> None:
        """Starts the next round without waiting for the tick."""
        self._nudged.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Runs rounds until `stopping`, then waits for the sends under way, not for deletes."""
        try:
            while not stopping.is_set():
                self._nudged.clear()
                await self._begin_round()
                await self._rest(stopping)
            for deletes in self._forgetting.values():
                deletes.cancel()
            await self.settled()
        finally:
            for task in (*self._under_way.values(), *self._forgetting.values()):
                task.cancel()

    async def _rest(self, stopping: asyncio.Event) -> None:
        waits = {asyncio.create_task(self._nudged.wait()), asyncio.create_task(stopping.wait())}
        tick = tick_seconds(self._settings.relay_tick_seconds, CHANCE.random())
        try:
            await asyncio.wait(waits, timeout=tick, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def round(self) -> bool:
        """Runs one round and waits for its sends. True if more rows may be due already."""
        more = await self._begin_round()
        await self.settled()
        return more

    async def settled(self) -> None:
        """Waits for the sends and the deletes under way."""
        if under_way := [*self._under_way.values(), *self._forgetting.values()]:
            await asyncio.wait(under_way)

    async def _begin_round(self) -> bool:
        """A failed step does not stop the others. True if more rows may be due than one round takes."""
        await alone("read_paused", self._read_paused())
        placed = await alone("place", self._place()) or 0
        self._placed_behind |= bool(placed and self._under_way)
        await alone("mark_lost", self._lost.mark())
        await alone("wake_joined", self._wake_joined())
        filled = await alone("take", self._take())
        self._begin_forgetting()
        if placed >= BATCH:
            self.nudge()
        return bool(placed >= BATCH or filled)

    async def _read_paused(self) -> None:
        if time.monotonic() - self._read_paused_at >= self._settings.heartbeat:
            self._paused = await read_paused_queues(self._database)
            self._read_paused_at = time.monotonic()

    async def _place(self) -> int:
        asked = {"queues": list(self._settings.queues_by_name), "limit": BATCH}
        placed = await fetch_around("place", self._left_out, self._database, PLACE_SCHEDULED, FIND_UNPLACED, asked)
        return len(placed)

    async def _wake_joined(self) -> None:
        if time.monotonic() - self._woke_joined_at > self._settings.takeover_resend_seconds:
            self._woke_joined_at = time.monotonic()
            await wake_joined(self._database)

    async def _take(self) -> bool:
        now = time.monotonic()
        asks = self._queues.choose(now, self._under_way, self._paused)
        if not asks:
            return False
        asked = {
            "queues": [ask.line.queue for ask in asks],
            "deads": [ask.line.dead for ask in asks],
            "limits": [ask.limit for ask in asks],
            "reaches": [ask.reach_seconds for ask in asks],
            "stamp": self._settings.relay_stamp_seconds,
            "resend": self._settings.takeover_resend_seconds,
        }
        due = await fetch_around("take", self._left_out, self._database, TAKE_DUE, FIND_DUE, asked)
        rows = [DueRow.of(row) for row in due]
        filled = [self._begin_sending(ask, rows, now) for ask in asks]
        return any(filled)

    def _begin_sending(self, ask: Ask, rows: Sequence[DueRow], now: float) -> bool:
        """True if the line may have more due rows."""
        taken = [row for row in rows if Line(row.queue, row.status is TurnStatus.FAILED) == ask.line]
        self._queues.taken(ask, len(taken), now)
        filled = len(taken) >= ask.limit
        if taken:
            load = Load.of(ask.line, taken, now + self._settings.relay_stamp_seconds)
            self._under_way[ask.line] = asyncio.create_task(self._send(load, filled=filled))
        return filled

    async def _send(self, load: Load, *, filled: bool) -> None:
        try:
            await alone("send", self._sends.send(load))
        finally:
            del self._under_way[load.line]
        if load.refusal is not None:
            self._queues.failed(load.line, time.monotonic(), CHANCE.random())
        elif load.sent:
            self._queues.sent(load.line)
            if filled or self._placed_behind:
                self._placed_behind = False
                self.nudge()

    def _begin_forgetting(self) -> None:
        """Runs in parallel with the rounds, because on a slow disk a delete may take as long as a statement may."""
        for what, forget in (("records", self._forget_records), ("turns", self._forget_turns)):
            if what not in self._forgetting and time.monotonic() - self._forgot_at[what] > FORGET_EVERY_SECONDS:
                self._forgot_at[what] = time.monotonic()
                self._forgetting[what] = asyncio.create_task(forget())
                self._forgetting[what].add_done_callback(partial(self._forgot, what))

    def _forgot(self, what: str, _: asyncio.Task[None]) -> None:
        del self._forgetting[what]

    async def _forget_turns(self) -> None:
        if await alone("delete_turns", self._old_turns.delete_some()):
            self._forgot_at["turns"] = -math.inf

    async def _forget_records(self) -> None:
        older_than_seconds = self._settings.idempotency_days * DAY_SECONDS
        more = [
            await alone("forget_submissions", forget_submissions(self._database, older_than_seconds)),
            await alone("forget_chosen_ids", forget_chosen_ids(self._database, older_than_seconds)),
            await alone("forget_tokens", forget_tokens(self._database)),
            await alone("prune_items", prune_items(self._database)),
            await alone("delete_archived", delete_archived(self._database, find_kept(self._settings))),
            await alone("delete_vanished_workers", delete_vanished_workers(self._database)),
        ]
        if self._settings.records_days != "forever":
            older_than_seconds = self._settings.records_days * DAY_SECONDS
            more.append(await alone("delete_records", delete_records(self._database, older_than_seconds)))
        if any(more) and None not in more:
            # One statement a minute keeps up with only a few requests a second, so the next round deletes more.
            self._forgot_at["records"] = -math.inf
