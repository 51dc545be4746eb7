"""The names that a handler or an application imports, and the package that all processes share.

    from turnstile import Retry, handler
    from turnstile import submit

The import is cheap: it loads no driver, no client of any server, and no process. What an application submits with is loaded
once it is named.
"""

from typing import TYPE_CHECKING, Any

from turnstile.handlers.child import Child, ChildFailedError
from turnstile.handlers.context import Context, Turn
from turnstile.handlers.exceptions import Reject, Retry, Snooze
from turnstile.handlers.handler import Handler, handler
from turnstile.turn.cancel_reason import CancelReason

if TYPE_CHECKING:
    from turnstile.submission.callers_transaction import SubmittedTurn, Submitter, submit

__all__ = [
    "CancelReason",
    "Child",
    "ChildFailedError",
    "Context",
    "Handler",
    "Reject",
    "Retry",
    "Snooze",
    "SubmittedTurn",
    "Submitter",
    "Turn",
    "handler",
    "submit",
]

_OF_APPLICATIONS = ("SubmittedTurn", "Submitter", "submit")


def __getattr__(name: str) -> Any:
    if name not in _OF_APPLICATIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from turnstile.submission import callers_transaction

    return getattr(callers_transaction, name)
