"""A blocking call beside the heartbeat's own thread: one at a time, and what comes while it runs is left out."""

import threading
from collections.abc import Callable
from typing import Any

import structlog

log = structlog.get_logger("turnstile.heartbeat")


class Aside:
    """`name` stands in the thread's name and in the log."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._thread: threading.Thread | None = None
        self._is_late = False

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, call: Callable[..., None], *arguments: Any) -> None:
        """Begins the call, unless the last one still runs; that is logged once. The next beat tries again."""
        if self.is_busy:
            if not self._is_late:
                log.info("heartbeat.extension_late", of=self.name)
            self._is_late = True
            return
        self._is_late = False
        # Known before it runs: who gives a message back looks for it.
        self._thread = threading.Thread(
            target=self._run, args=(call, *arguments), name=f"heartbeat-{self.name}", daemon=True
        )
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Returns when no call is under way, or the time is over. Blocks."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception:
            # A bug of ours; the next beat tries again.
            log.exception("heartbeat.failed")
