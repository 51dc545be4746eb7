"""Whether the worker begins turns. It does not while operators have paused its queue, as the last heartbeat read it, or while its
handler is broken."""

from collections.abc import Callable

from turnstile.telemetry.own_log import log


class QueuePause:
    """Belongs to the worker's event loop. Handlers that run when the pause begins come to their end."""

    def __init__(self, *, begins_paused: bool = False) -> None:
        """`begins_paused`: begin no turn until the first heartbeat has read the table."""
        self._by_operators = begins_paused
        self._by_broken_handler = False
        self.is_known = not begins_paused
        """False: nobody has read the table yet. A worker that can't read it is deaf, not paused."""
        self._is_told = False
        self._changed: Callable[[], None] = lambda: None

    @property
    def is_on(self) -> bool:
        return self._by_operators or self._by_broken_handler

    def on_change(self, call: Callable[[], None]) -> None:
        self._changed = call

    def set(self, is_on: bool) -> None:
        """Takes what the table says now."""
        was, self._by_operators, self.is_known = self.is_on, is_on, True
        if is_on != self._is_told:
            log.warning("worker.paused" if is_on else "worker.resumed")
            self._is_told = is_on
        if was != self.is_on:
            self._changed()

    def set_broken(self, is_broken: bool) -> None:
        """Takes what the worker's first turns say of its handler."""
        was, self._by_broken_handler = self.is_on, is_broken
        if was != self.is_on:
            self._changed()
