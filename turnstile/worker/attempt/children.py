"""`ctx.submit` and `ctx.join`: fan-out and fan-in. The parent occupies no slot, lock or lease while its children work.

A join ends its parent's attempt. When the children have ended, the handler runs again from its beginning: `ctx.once` returns the
recorded values, `ctx.submit` returns the same children, and the join returns their results.
"""

import secrets
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, assert_never
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.handlers.child import Child, ChildFailedError
from turnstile.statements.start_children import (
    ChildState,
    KnownChild,
    is_joined,
    make_child_id,
    read_children,
    read_depth,
    read_outputs,
    read_states,
    was_started_by,
)
from turnstile.statements.submit import ParentClaim, Submission
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import ID_RULE, RESERVED_RULE, continue_trace, is_reserved_session, is_valid_id
from turnstile.turn.limits import check_attempts, check_seconds
from turnstile.turn.settlement import JoinPolicy
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt.child_intake import ChildIntake
from turnstile.worker.attempt.once import check_key
from turnstile.worker.attempt.outcome import ClaimLost, JoinPending
from turnstile.worker.attempt.reply import clean
from turnstile.worker.database_retry import RetryWhileDown

MAX_CHILDREN = 1000
MAX_DEPTH = 50
"""Ancestors of a turn, at most. A handler that starts itself as its own child would go on without end, also after a cancel."""
MAX_INPUT_CHARACTERS = 200_000
MAX_METADATA_CHARACTERS = 16_384

_LOST = frozenset({TurnStatus.FAILED, TurnStatus.CANCELED})


class OnFailure(StrEnum):
    """What becomes of a join's open children once a failure has ended the join."""

    LEAVE = "leave"
    CANCEL = "cancel"


class Children:
    def __init__(
        self, turn: ClaimedTurn, database: Database, retry_while_down: RetryWhileDown, intake: ChildIntake
    ) -> None:
        self._turn = turn
        self._database = database
        self._retry_while_down = retry_while_down
        self._intake = intake
        self._calls = 0
        self._asked_for: set[str] = set()
        self._known: dict[str, KnownChild] | None = None
        self._depth: int | None = None

    async def submit(
        self,
        input: Any,  # noqa: A002 - as the protocol has it
        *,
        session: str | None = None,
        key: str | None = None,
        queue: str | None = None,
        max_attempts: int | None = None,
        timeout_seconds: float | None = None,
        expires_in_seconds: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Child:
        """The child of this call: the one that an earlier run of the handler started, otherwise a new one.

        Raises ValueError for arguments that make no valid turn, and beyond MAX_DEPTH; UnknownQueueError, ChildIdTakenError,
        ClaimLost.
        """
        if key is None:
            self._calls += 1
            key = f"#{self._calls}"
        else:
            check_key(key)
            if key.startswith("#"):
                raise ValueError("a key may not begin with '#': calls without a key are numbered that way")
        self._asked_for.add(key)
        if len(self._asked_for) > MAX_CHILDREN:
            raise ValueError(f"one turn may start at most {MAX_CHILDREN} children")
        for name, seconds in (("timeout_seconds", timeout_seconds), ("expires_in_seconds", expires_in_seconds)):
            if seconds is not None:
                check_seconds(name, seconds)
        if max_attempts is not None:
            check_attempts(max_attempts)
        turn = self._turn
        child_id = make_child_id(turn.id, turn.created_at, turn.span_id, turn.generation, key)
        session_id = _check_session(self._turn, f"child:{child_id}" if session is None else session)
        known = (await self._read()).get(key)
        submission = Submission(
            turn_id=child_id,
            tenant_id=self._turn.tenant_id,
            session_id=session_id,
            queue=(declared := self._intake.find_queue(queue or self._turn.queue)).name,
            content=_check_input(input),
            fingerprint=b"",
            trace=continue_trace(self._turn.trace.traceparent, secrets.randbits(192)),
            expires_in_seconds=expires_in_seconds or declared.expires_in_seconds,
            max_attempts=max_attempts,
            timeout_seconds=timeout_seconds,
            metadata=_check_metadata(metadata),
            parent=ParentClaim(self._turn.id, self._turn.fence, key, replaces=None if known is None else known.id),
        )
        # A lost child of an earlier generation is started again: that is the purpose of the parent's redrive.
        if known is not None and (known.id == child_id or known.status not in _LOST):
            return Child(known.id, known.session_id, key)
        await self._check_depth()
        try:
            await self._retry_while_down(lambda: self._intake.accept(submission))
        except ClaimLost:
            if known is None or await self._is_still_lost(known):
                raise
            return Child(known.id, known.session_id, key)
        return Child(child_id, session_id, key)

    async def join(self, children: Sequence[Child], policy: str = "all", *, on_failure: str = "leave") -> list[Any]:
        """The children's outputs, in the order of `children`; raises JoinPending while the policy must wait for children.

        Raises ChildFailedError as soon as the policy can't be met any more, after the cancel of those that are still open if
        `on_failure` says so, and ValueError for children of other turns.
        """
        wanted, others = JoinPolicy(policy), OnFailure(on_failure)
        ids = [child.id for child in children]
        if not ids:
            if wanted is JoinPolicy.ANY:
                raise ValueError("a join with `any` needs at least one child")
            return []
        states = await self._retry_while_down(lambda: read_states(self._database, self._turn.id, ids))
        if strangers := [str(one) for one in ids if one not in states]:
            raise ValueError(f"not started by this turn: {', '.join(strangers)}")
        if not is_joined([states[one] for one in ids], wanted):
            raise JoinPending(tuple(dict.fromkeys(ids)), wanted)
        if (failed := _find_failure(children, states, wanted)) is not None:
            match others:
                case OnFailure.LEAVE:
                    pass
                case OnFailure.CANCEL:
                    await self._cancel([one for one in states if states[one].status.is_open])
                case _:
                    assert_never(others)
            raise failed
        answered = {one: states[one].session_id for one in ids if states[one].status is TurnStatus.SUCCEEDED}
        tenant_id = self._turn.tenant_id
        outputs = await self._retry_while_down(lambda: read_outputs(self._database, tenant_id, answered))
        return [outputs.get(one) for one in ids]

    async def _cancel(self, children: Sequence[UUID]) -> None:
        for child_id in children:
            await self._retry_while_down(partial(self._intake.cancel, self._turn.tenant_id, child_id))

    async def _read(self) -> dict[str, KnownChild]:
        if self._known is None:
            found = await self._retry_while_down(lambda: read_children(self._database, self._turn.id))
            # A client may reuse an id that it has chosen once its turn is archived. A turn may be archived before its children,
            # whose sessions may go on. So the children found may be those of an earlier turn with this id.
            ours = self._turn.created_at
            self._known = {key: child for key, child in found.items() if was_started_by(child.id, ours)}
        return self._known

    async def _check_depth(self) -> None:
        if self._depth is None and self._turn.parent_turn_id is not None:
            self._depth = await self._retry_while_down(lambda: read_depth(self._database, self._turn.id, MAX_DEPTH))
        if (self._depth or 0) >= MAX_DEPTH:
            raise ValueError(f"children may be nested {MAX_DEPTH} deep, and this turn is as deep: end the recursion")

    async def _is_still_lost(self, known: KnownChild) -> bool:
        # `known` was read at this attempt's first call: an operator may have redriven the child itself since then.
        states = await self._retry_while_down(lambda: read_states(self._database, self._turn.id, [known.id]))
        return known.id not in states or states[known.id].status in _LOST


def _find_failure(
    children: Sequence[Child], states: Mapping[UUID, ChildState], policy: JoinPolicy
) -> ChildFailedError | None:
    """Why the policy can't be met any more; None if it is met."""
    lost = [child for child in children if states[child.id].status in _LOST]
    if not lost or (policy is JoinPolicy.ANY and len(lost) < len(children)):
        return None
    # A FAILED one before a CANCELED one, which may have been cancelled for it.
    child = min(lost, key=lambda one: states[one.id].status is not TurnStatus.FAILED)
    state = states[child.id]
    return ChildFailedError(child, state.status.value, state.error_class, state.error)


def _check_session(turn: ClaimedTurn, session: str) -> str:
    if session == turn.session_id:
        raise ValueError(
            "a child in its parent's own session would wait behind its parent for ever: name another session, or none"
        )
    if not is_valid_id(session):
        raise ValueError(f"session must be {ID_RULE}, got {session!r:.150}")
    if is_reserved_session(session):
        raise ValueError(RESERVED_RULE)
    return session


def _check_input(content: Any) -> Any:
    if isinstance(content, str) and not content.strip():
        raise ValueError("the input of a child must not be a blank text")
    return clean(content, what="the input of a child", most=MAX_INPUT_CHARACTERS).value


def _check_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if metadata is None:
        return None
    cleaned: dict[str, Any] = clean(dict(metadata), what="metadata", most=MAX_METADATA_CHARACTERS).value
    return cleaned
