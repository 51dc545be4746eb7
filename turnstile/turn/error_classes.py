"""The classes of a turn's error, and whose text a client may read. Pure.

An exception's text quotes what its author never meant for users: a host, a password, the words of another user. A client gets the
text only if somebody wrote it for readers: the handler's author in `Retry` and `Reject`, or this program. The row has every text,
and operators see it.
"""

REJECT = "Reject"
"""The class of `Reject` and its subclasses."""
RETRY = "Retry"
"""The class of `Retry` and its subclasses."""
TIMEOUT = "timeout"
EXPIRED = "expired"
SHUTDOWN_LOOP = "shutdown_loop"
CRASH_LOOP = "crash_loop"
UNFIT_REPLY = "unfit_reply"

_TOLD = frozenset({REJECT, RETRY, TIMEOUT, EXPIRED, SHUTDOWN_LOOP, CRASH_LOOP})
_OURS = _TOLD | {UNFIT_REPLY}
"""Clients do not see the text of an unfit reply: it quotes the encoder, which may quote an object of the handler's."""


def name_class(error: BaseException) -> str:
    """The class of an error that is not one of ours. If it has the name of one of ours, its module is added: otherwise
    clients would see its text."""
    kind = type(error)
    return f"{kind.__module__}.{kind.__name__}" if kind.__name__ in _OURS else kind.__name__


def text_for_clients(error_class: str | None, error: str | None) -> str | None:
    """The text of a turn's error as a client may read it; None if only operators may."""
    return error if error_class in _TOLD else None
