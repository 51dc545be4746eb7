"""Exceptions that end an attempt from within: a call on the context raises them through the handler. Pure.

They are not subclasses of Exception, so that a handler's `except Exception` does not catch them by mistake. If a handler catches
one all the same and returns, its return value is its reply.
"""

from uuid import UUID

from turnstile.turn.settlement import JoinPolicy


class AttemptEnding(BaseException):
    """The attempt is over for a reason outside the handler; it has not failed."""


class ClaimLost(AttemptEnding):
    """Another claim has the turn now: the results of this attempt are discarded."""


class JoinPending(AttemptEnding):
    """The children have not ended yet: the handler runs again from its beginning when they have."""

    def __init__(self, children: tuple[UUID, ...], policy: JoinPolicy) -> None:
        super().__init__(f"waits for {policy} of {len(children)} children")
        self.children = children
        self.policy = policy
