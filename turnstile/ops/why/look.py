"""Looks at tables and session locks, and decides why turns wait. Changes nothing."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.operator_client import RedisUnreachableError
from turnstile.config.settings import Settings
from turnstile.ops.turns.operator_turns import find_tenants
from turnstile.ops.why.answer import Answer
from turnstile.ops.why.decision import MARGIN_SECONDS, decide
from turnstile.ops.why.limit_inspection import look_at_limits
from turnstile.ops.why.lock_inspection import look_at_locks
from turnstile.ops.why.read_wait_facts import find_session, read_wait_facts
from turnstile.ops.why.turn_state import AT_REST, ended, erasing
from turnstile.ops.why.wait_facts import SeenLock, WaitFacts, WaitTerms
from turnstile.queries.turns import read_turn
from turnstile.turn.status import TurnStatus
from turnstile.worker.session_lock import is_foreign


async def explain_turns(settings: Settings, database: Database, turn_ids: Sequence[UUID]) -> dict[UUID, Answer]:
    """Why these turns wait; unknown and archived turns are left out. Raises DatabaseUnavailableError."""
    found = await read_wait_facts(database, turn_ids)
    away, foreign = None, {}
    try:
        locks = await _look_at_locks(settings, found)
        foreign = {
            turn_id: one.key for turn_id, one in locks.items() if is_foreign(one.seconds_left, settings.lease_seconds)
        }
        found |= {
            turn_id: replace(found[turn_id], lock=one) for turn_id, one in locks.items() if turn_id not in foreign
        }
        if settings.limits:
            due = {turn_id: facts for turn_id, facts in found.items() if _is_due(facts)}
            found |= await look_at_limits(settings, database, due)
    except RedisUnreachableError as error:
        away = str(error)
    terms = WaitTerms(
        overdue_seconds=settings.relay_stamp_seconds + MARGIN_SECONDS,
        tenant_share=settings.tenant_slots,
        max_crashes={name: queue.max_crashes for name, queue in settings.queues_by_name.items()},
    )
    return {
        turn_id: Answer(
            tenant_id=facts.turn.tenant_id,
            session_id=facts.turn.session_id,
            turn_id=turn_id,
            turn=facts.turn,
            reason=decide(facts, terms),
            at=facts.at,
            redis_away=away if _is_due(facts) else None,
            foreign_lock=foreign.get(turn_id),
        )
        for turn_id, facts in found.items()
    }


async def _look_at_locks(settings: Settings, found: dict[UUID, WaitFacts]) -> dict[UUID, SeenLock]:
    # A lock explains nothing while a turn is RUNNING or may not begin yet.
    due = {turn_id: facts for turn_id, facts in found.items() if _is_due(facts)}
    locks = await look_at_locks(settings, [(one.turn.tenant_id, one.turn.session_id) for one in due.values()])
    return {turn_id: lock for turn_id, lock in zip(due, locks, strict=True) if lock is not None}


def _is_due(facts: WaitFacts) -> bool:
    head = facts.head
    return head is not None and head.status is TurnStatus.PENDING and head.due_since <= facts.at


async def explain_turn(settings: Settings, database: Database, turn_id: UUID, tenant_id: str | None) -> Answer | None:
    """Why a turn waits, archived or not; None if no tenant has it, or not the given one. Raises DatabaseUnavailableError."""
    answer = (await explain_turns(settings, database, [turn_id])).get(turn_id)
    if answer is not None and tenant_id in {None, answer.tenant_id}:
        return answer
    owner = tenant_id or next(iter(await find_tenants(database, turn_id)), None)
    turn = None if owner is None else await read_turn(database, owner, turn_id)
    if turn is None or turn.status.is_open:
        return None
    return Answer(
        tenant_id=turn.tenant_id, session_id=turn.session_id, turn_id=turn_id, turn=None, reason=ended(turn, None)
    )


async def explain_session(settings: Settings, database: Database, tenant_id: str, session_id: str) -> Answer | None:
    """Why the head of a session waits; without one, how its last turn ended. None: the tenant does not have this session.

    Raises DatabaseUnavailableError.
    """
    session = await find_session(database, tenant_id, session_id)
    if session is None:
        return None
    known = session.turn_id and await explain_turn(settings, database, session.turn_id, tenant_id)
    if known:
        return known
    reason = AT_REST if session.erasure is None else erasing(session.erasure, tenant_id, session_id, None)
    return Answer(tenant_id=tenant_id, session_id=session_id, turn_id=None, turn=None, reason=reason)
