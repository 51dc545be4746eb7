"""Whether Postgres, Redis and SQS respond, as this process last saw it."""

from functools import cache

from turnstile.telemetry.metrics import BACKEND_FAILURES, BACKEND_UP


class BackendHealth:
    """One server, or one service, whichever client calls it: any success shows that it is up."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._is_up: bool | None = None

    def responded(self) -> None:
        # Called for every call, so it writes only a change.
        if self._is_up is not True:
            self._is_up = True
            BACKEND_UP.set(1, self._backend)
            # Prometheus sees no increase in a series that begins with its first failure.
            BACKEND_FAILURES.add(0, self._backend)

    def failed(self) -> None:
        self._is_up = False
        BACKEND_UP.set(0, self._backend)
        BACKEND_FAILURES.add(1, self._backend)


@cache
def health_of(backend: str) -> BackendHealth:
    """The one object for `postgres`, `redis_lock`, `redis_memory` or `sqs`."""
    return BackendHealth(backend)
