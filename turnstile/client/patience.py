"""How long a call goes on without success, and how long it pauses between two tries. Pure: randomness is an argument."""

from collections.abc import Callable

from turnstile.backends.backoff import full_jitter

BASE_SECONDS = 0.2
CAP_SECONDS = 5.0


class Patience:
    """Spent by what fails, restored by what succeeds."""

    def __init__(self, seconds: float, fraction: Callable[[], float]) -> None:
        """`fraction` draws a random number from 0 to 1."""
        self._seconds = seconds
        self._fraction = fraction
        self.restore()

    def restore(self) -> None:
        """Something has gone well."""
        self._failures = 0
        self._spent = 0.0

    def after_failure(self, took: float, asked: float | None = None) -> float | None:
        """Seconds to pause after a failure that took `took` seconds; None if the patience does not last so long.

        `asked`: what the API has asked for. The pause is that and some more, so that those who were refused together do not come
        back together.
        """
        self._failures += 1
        self._spent += took
        pause = (asked or 0.0) + full_jitter(self._failures, self._fraction(), BASE_SECONDS, CAP_SECONDS)
        if self._spent + pause >= self._seconds:
            return None
        self._spent += pause
        return pause
