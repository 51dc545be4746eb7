"""Receives messages and answers turns. What a handler needs is here; importing it costs next to nothing."""

from worker.handler import Context, Handler, Reject, Retry, Snooze, Turn, handler

__all__ = ["Context", "Handler", "Reject", "Retry", "Snooze", "Turn", "handler"]
