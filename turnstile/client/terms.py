"""What holds for all calls of one client. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from turnstile.client.patience import Patience
from turnstile.turn.identifiers import ID_RULE, is_valid_id

LOCAL_URL = "http://127.0.0.1:8080"
"""Where an API listens unless it is told otherwise."""
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Terms:
    url: str
    """Of the API, for error texts."""
    patience_seconds: float
    fraction: Callable[[], float]
    """Draws a random number from 0 to 1."""

    def patience(self) -> Patience:
        """That of one call."""
        return Patience(self.patience_seconds, self.fraction)


def check_session(session_id: str) -> str:
    """The id. Raises ValueError: other ids would be lost in a URL."""
    if not is_valid_id(session_id):
        # Without the value: it may be a secret in the wrong place.
        raise ValueError(f"the session must be {ID_RULE}")
    return session_id
