"""`--fix`: what is safe to repeat and loses nothing. Each repair looks once more and leaves alone what has moved on."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import assert_never
from uuid import UUID

import psycopg

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.doctor.repair import Owed, forget_workers, note_dead_letters, owe, wake_head
from turnstile.errors import DatabaseUnavailableError, QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.dlq_pass import DeadLetterPass
from turnstile.ops.dead_letters.sweep import judge_letters
from turnstile.ops.doctor.findings import Finding, Remedy
from turnstile.statements.advance_fences import advance_beyond
from turnstile.worker.lock_inspection import LockInspector, LocksUnreadableError

BATCH = 100
"""Turns per statement: their rows are locked while it runs."""

_AWAY = (DatabaseUnavailableError, QueueUnavailableError, UnknownQueueError, LocksUnreadableError, psycopg.Error)


class Repair:
    """Repairs findings. Raises nothing for a service that is away: what it could not do stays unrepaired."""

    def __init__(self, settings: Settings, database: Database, queues: MessageQueues, locks: LockInspector) -> None:
        self._settings = settings
        self._database = database
        self._queues = queues
        self._locks = locks
        self.failures: list[str] = []
        """Why something stayed unrepaired, a line each."""

    async def run(self, findings: Sequence[Finding]) -> list[Finding]:
        """The findings with `fixed` told, in their order."""
        by_remedy: dict[Remedy, list[Finding]] = {}
        for finding in findings:
            if finding.kind.remedy is not None:
                by_remedy.setdefault(finding.kind.remedy, []).append(finding)
        fixed: set[tuple[str, str, str]] = set()
        for remedy, ill in by_remedy.items():
            try:
                await self._apply(remedy, ill, fixed)
            except _AWAY as error:
                self.failures.append(f"{remedy.value}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
        return [
            finding if finding.kind.remedy is None else finding.after(fixed=finding.key in fixed)
            for finding in findings
        ]

    async def _apply(self, remedy: Remedy, ill: Sequence[Finding], fixed: set[tuple[str, str, str]]) -> None:
        match remedy:
            case Remedy.WAKE | Remedy.SEND_DEAD_LETTER:
                for start in range(0, len(ill), BATCH):
                    await self._send_owed(ill[start : start + BATCH], fixed)
            case Remedy.SWEEP:
                for queue, letters in groupby(sorted(ill, key=_queue), key=_queue):
                    await self._sweep(queue, list(letters), fixed)
            case Remedy.UNLOCK:
                for finding in ill:
                    await self._unlock(finding, fixed)
            case Remedy.FORGET_WORKER:
                workers = [finding.worker for finding in ill if finding.worker is not None]
                seen = [(worker.worker_id, worker.seen_at) for worker in workers]
                forgotten = await forget_workers(self._database, seen)
                fixed |= {finding.key for finding in ill if finding.subject in forgotten}
            case Remedy.ADVANCE_FENCES:
                for finding in ill:
                    if finding.fence is not None:
                        await advance_beyond(self._database, finding.fence)
                        fixed.add(finding.key)
            case _:
                assert_never(remedy)

    async def _send_owed(self, ill: Sequence[Finding], fixed: set[tuple[str, str, str]]) -> None:
        turns = [finding.turn for finding in ill if finding.turn is not None]
        owed = await owe(self._database, turns, stamp_seconds=self._settings.relay_stamp_seconds)
        done = {one.row.id for one in owed if one.later}
        for queue, rows in groupby(sorted((one for one in owed if not one.later), key=_row_queue), key=_row_queue):
            done |= await self._send(queue, list(rows))
        fixed |= {finding.key for finding in ill if finding.turn is not None and finding.turn.id in done}

    async def _send(self, queue: str, owed: Sequence[Owed]) -> set[UUID]:
        """Each queue by itself. What SQS does not take has a `send_at`: a relay sends it."""
        awake = [one.row for one in owed if one.row.status.is_open]
        dead = [one.row for one in owed if not one.row.status.is_open]
        try:
            sent = {one.wake_up.turn_id for one in await self._queues.send(queue, [row.message for row in awake])}
            letters = await self._queues.send_dead_letters(queue, [row.dead_letter for row in dead])
        except (QueueUnavailableError, UnknownQueueError) as error:
            self.failures.append(f"{len(owed)} messages of queue {queue} were owed and not sent: {error}")
            return set()
        await note_dead_letters(self._database, letters)
        return sent | {letter.message.wake_up.turn_id for letter in letters}

    async def _sweep(self, queue: str, ill: Sequence[Finding], fixed: set[tuple[str, str, str]]) -> None:
        wanted = {finding.subject: finding.key for finding in ill}
        refused = 0
        async with DeadLetterPass(self._queues, queue) as dead:
            async for messages in dead.batches():
                judged = await judge_letters(self._database, messages)
                # By the rows as they are now, and only what was found.
                litter = [
                    letter.message
                    for letter, verdict in judged
                    if verdict.is_litter and letter.message.message_id in wanted
                ]
                gone = await dead.delete(litter)
                fixed |= {wanted.pop(message.message_id) for message in gone}
                refused += len(litter) - len(gone)
                if not wanted:
                    break
        if refused:
            self.failures.append(f"{refused} dead letters of queue {queue} were not deleted: SQS refused it")

    async def _unlock(self, finding: Finding, fixed: set[tuple[str, str, str]]) -> None:
        lock = finding.lock
        if lock is None or not await self._locks.free(lock):
            return
        fixed.add(finding.key)
        # Whoever came while it stood there was turned away.
        woken = await wake_head(self._database, lock.tenant_id, lock.session_id)
        if woken is not None:
            queue, message = woken
            await self._queues.send(queue, [message])


def plan(findings: Iterable[Finding]) -> dict[str, int]:
    """How often each remedy would be applied."""
    counts: dict[str, int] = {}
    for finding in findings:
        if finding.kind.remedy is not None:
            counts[finding.kind.remedy.value] = counts.get(finding.kind.remedy.value, 0) + 1
    return counts


def _queue(finding: Finding) -> str:
    return finding.queue or ""


def _row_queue(owed: Owed) -> str:
    return owed.row.queue
