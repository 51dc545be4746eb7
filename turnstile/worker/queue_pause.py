"""Whether operators have paused the worker's queue, as the last heartbeat read it. A paused worker begins no turn."""

from collections.abc import Callable

from turnstile.telemetry.own_log import log


class QueuePause:
    """Belongs to the worker's event loop. Handlers that run when the pause begins come to their end."""

    def __init__(self, *, begins_paused: bool = False) -> None:
        """`begins_paused`: begin no turn until the first heartbeat has read the table."""
        self.is_on = begins_paused
        self.is_known = not begins_paused
        """False: nobody has read the table yet. A worker that can't read it is deaf, not paused."""
        self._is_told = False
        self._changed: Callable[[], None] = lambda: None

    def on_change(self, call: Callable[[], None]) -> None:
        self._changed = call

    def set(self, is_on: bool) -> None:
        """Takes what the table says now."""
        was, self.is_on, self.is_known = self.is_on, is_on, True
        if is_on != self._is_told:
            log.warning("worker.paused" if is_on else "worker.resumed")
            self._is_told = is_on
        if was != is_on:
            self._changed()
