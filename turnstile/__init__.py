"""What a handler imports, and what all processes share.

    from turnstile import Retry, handler

Importing it costs next to nothing: no driver, no client of any server, and none of the processes.
"""

from turnstile.handlers.child import Child, ChildFailedError
from turnstile.handlers.handler import Context, Handler, Reject, Retry, Snooze, Turn, handler
from turnstile.turn.cancel_reason import CancelReason

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
