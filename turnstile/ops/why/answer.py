"""The answer of `turnstile why`, as lines or as a JSON document. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from turnstile.ops.terminal.output import short_duration, short_time
from turnstile.ops.why.reason import Code, Reason
from turnstile.ops.why.wait_facts import SeenTurn
from turnstile.turn.status import TurnStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Why one turn, or the head of one session, waits."""

    tenant_id: str
    session_id: str
    turn_id: UUID | None
    """None: all turns of the session are in the archive, or it is being erased and none of them is open."""
    turn: SeenTurn | None
    """None: the turn is in the archive."""
    reason: Reason
    at: datetime | None = None
    """When the tables were read, by the database's clock; None if the turn was not in them."""
    redis_away: str | None = None
    """Why Redis could not be asked for the session's lock; None: it was asked, or the lock does not matter."""
    foreign_lock: str | None = None
    """The key of the session's lock, if no worker has set it: workers claim without it."""

    @property
    def expired_at(self) -> datetime | None:
        """The end of a waiting turn's time, if it is over: the turn still begins, but no retry and no snooze follows."""
        turn, at = self.turn, self.at
        if turn is None or at is None or turn.status is not TurnStatus.PENDING or turn.expires_at > at:
            return None
        return turn.expires_at


def as_lines(answer: Answer) -> list[str]:
    """The whole answer for people: the turn, its reason with the evidence, and the commands."""
    evidence = list(answer.reason.evidence)
    if answer.expired_at is not None:
        evidence.append(f"its time was over at {short_time(answer.expired_at)}: it still begins, but no retry follows")
    if answer.redis_away is not None:
        evidence.append(f"Redis does not respond, so the session's lock was not looked at: {answer.redis_away}")
    if answer.foreign_lock is not None:
        evidence.append(
            f"no worker has set the session's lock {answer.foreign_lock}: workers claim without it. Delete it"
        )
    return [_subject(answer), answer.reason.headline, *(f"  {line}" for line in evidence), *command_lines(answer)]


def command_lines(answer: Answer) -> list[str]:
    """The commands, each on a line of its own, so that it can be copied."""
    goal = "to stop it:" if answer.reason.code is Code.RUNNING else "to move it:"
    return [f"{'or:' if place else goal:<11} {command}" for place, command in enumerate(answer.reason.commands)]


def _subject(answer: Answer) -> str:
    session = f"session {answer.session_id} of tenant {answer.tenant_id}"
    turn, at = answer.turn, answer.at
    if turn is None or at is None:
        return session if answer.turn_id is None else f"turn {answer.turn_id}, {session}"
    place = "no seq yet" if turn.seq is None else f"seq {turn.seq}"
    waits = turn.status is TurnStatus.PENDING and turn.first_started_at is None and turn.queued_at < at
    waited = f", has waited for {short_duration((at - turn.queued_at).total_seconds())}" if waits else ""
    return f"turn {turn.id}, {session}, {place}, queue {turn.queue}: {turn.status}{waited}"


def as_document(answer: Answer) -> dict[str, Any]:
    """The answer for JSON."""
    return {
        "at": answer.at,
        "tenant_id": answer.tenant_id,
        "session_id": answer.session_id,
        "turn": answer.turn.as_document() if answer.turn else answer.turn_id and {"id": answer.turn_id},
        "reason": answer.reason.as_document(),
        "expired_at": answer.expired_at,
        "redis_away": answer.redis_away,
        "foreign_lock": answer.foreign_lock,
    }
