"""Receives messages and answers turns. What a handler needs is here; importing it costs next to nothing."""

from turns.cancel_reason import CancelReason
from worker.child import Child, ChildFailedError
from worker.handler import Context, Handler, Reject, Retry, Snooze, Turn, handler

__all__ = [
    "CancelReason",
    "Child",
    "ChildFailedError",
    "Context",
    "Handler",
    "Reject",
    "Retry",
    "Snooze",
    "Turn",
    "handler",
]
