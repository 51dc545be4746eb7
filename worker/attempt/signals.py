"""What ends an attempt from within, raised by a call on the context through the handler. Pure.

Not of class Exception: a handler that catches whatever goes wrong with its work must not catch these by mistake. One that
does, and returns, has answered.
"""

from uuid import UUID

from turnstile.turn.settlement import JoinPolicy


class AttemptEnding(BaseException):
    """Not a failure: the attempt is over, for a reason that is not the handler's."""


class ClaimLost(AttemptEnding):
    """Another claim has the turn by now: nothing that this attempt does counts any more."""


class JoinPending(AttemptEnding):
    """The children have not come to their ends: the handler runs again from its top when they have."""

    def __init__(self, children: tuple[UUID, ...], policy: JoinPolicy) -> None:
        super().__init__(f"waits for {policy} of {len(children)} children")
        self.children = children
        self.policy = policy
