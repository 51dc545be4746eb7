"""The names that a handler imports, and the package that all processes share.

    from turnstile import Retry, handler

The import is cheap: it loads no driver, no client of any server, and no process.
"""

from turnstile.handlers.child import Child, ChildFailedError
from turnstile.handlers.context import Context, Turn
from turnstile.handlers.exceptions import Reject, Retry, Snooze
from turnstile.handlers.handler import Handler, handler
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
