"""Decides why a turn waits: the one reason that has to go first. Pure.

The order of the tests is the order in which one reason hides the next: behind a paused queue it does not matter that no
worker is alive, and without a worker it does not matter whether a wake-up was sent.
"""

from typing import assert_never

from turnstile.ops.why import obstacles, turn_state
from turnstile.ops.why.reason import Reason
from turnstile.ops.why.wait_facts import SeenTurn, WaitFacts, WaitTerms
from turnstile.turn.status import TurnStatus

MARGIN_SECONDS = 10.0
"""Tolerance: what is late by less is usual."""


def decide(facts: WaitFacts, terms: WaitTerms) -> Reason:
    """Why the turn of `facts` waits."""
    turn, halt = facts.turn, facts.halt
    halts = halt is not None and halt.turn_id == turn.id
    if turn.status.is_terminal and not halts:
        return turn_state.ended(turn, facts.at)
    if facts.erasure is not None and turn.status is TurnStatus.PENDING:
        return turn_state.erasing(facts.erasure, turn.tenant_id, turn.session_id, facts.at)
    if halt is not None and (halts or turn.status is TurnStatus.PENDING):
        return turn_state.halted(halt, facts.at)
    if turn.seq is None:
        return _decide_scheduled(turn, facts, terms)
    head = facts.head or turn
    reason = _decide_head(head, facts, terms)
    return reason if head.id == turn.id else turn_state.behind(head, reason)


def _decide_scheduled(turn: SeenTurn, facts: WaitFacts, terms: WaitTerms) -> Reason:
    """A turn without a place in its session: a relay gives it one when its time has come."""
    if turn.due_since > facts.at:
        return obstacles.paused(turn, facts) or turn_state.scheduled(turn, facts.at)
    return (
        obstacles.paused(turn, facts)
        or obstacles.locked(turn, facts)
        or obstacles.not_sent(turn, facts, terms)
        or obstacles.not_begun(turn, facts)
    )


def _decide_head(head: SeenTurn, facts: WaitFacts, terms: WaitTerms) -> Reason:
    """The first open turn of a session."""
    match head.status:
        case TurnStatus.RUNNING if head.lease_until is not None and head.lease_until < facts.at:
            obstacle = (
                obstacles.paused(head, facts)
                or obstacles.no_worker(head, facts)
                or obstacles.locked(head, facts)
                or obstacles.quarantined(head, facts, terms)
            )
            return turn_state.lost(head, facts, obstacle)
        case TurnStatus.RUNNING:
            return obstacles.locked(head, facts) or turn_state.running(head, facts, terms)
        case TurnStatus.PENDING if head.due_since > facts.at:
            return (
                # First: a turn that is made due would wait for the queue.
                obstacles.paused(head, facts)
                or turn_state.joining(head, facts.at)
                or turn_state.retry(head, facts.at)
                or turn_state.snoozed(head, facts.at)
                or turn_state.scheduled(head, facts.at)
            )
        case TurnStatus.PENDING:
            return (
                obstacles.paused(head, facts)
                or obstacles.no_worker(head, facts)
                or obstacles.locked(head, facts)
                or obstacles.quarantined(head, facts, terms)
                or obstacles.lock_without_row(facts)
                or obstacles.not_sent(head, facts, terms)
                or obstacles.limited(facts)
                or obstacles.tenant_full(head, facts, terms)
                or obstacles.slots_busy(head, facts)
                or obstacles.sent_in_vain(head, facts)
                or obstacles.not_begun(head, facts)
            )
        case TurnStatus.SUCCEEDED | TurnStatus.FAILED | TurnStatus.CANCELED:
            raise ValueError("a head is open")
        case _:
            assert_never(head.status)
