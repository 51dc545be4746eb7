"""What goes wrong in a call of the API: a small tree. Each problem carries what the API said."""

from collections.abc import Mapping
from typing import Any

from turnstile.errors import TurnstileError


class ClientError(TurnstileError):
    """Base class of all that the client raises."""


class ApiUnreachableError(ClientError):
    """There was no connection, or it broke, again and again for as long as the client has patience.

    `sent`: whether any try may have reached the API. A submit may then have been done: with the same key it is one turn.
    """

    def __init__(self, url: str, reason: str, *, sent: bool) -> None:
        super().__init__(f"the API at {url} does not answer: {reason}")
        self.sent = sent


class UnexpectedAnswerError(ClientError):
    """What answers there is not a Turnstile API: another program, or a proxy in front of it."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(f"{url} answered {status}, but not as a Turnstile API does")
        self.status = status


class ProblemError(ClientError):
    """The API refuses the request. Subclasses are by status, `type` names the kind of problem and never changes."""

    def __init__(self, document: Mapping[str, Any], status: int, retry_after: float | None = None) -> None:
        self.document = document
        """The whole `application/problem+json`."""
        self.type = str(document["type"])
        """Such as `/problems/session-busy`."""
        self.title = str(document.get("title", ""))
        self.detail = str(document.get("detail") or self.title or "refused")
        """What is wrong, and what to do."""
        self.status = status
        self.retry_after = retry_after
        """After how many seconds the API asks to repeat the request; None: it does not."""
        super().__init__(f"{status}: {self.detail}")


class UnauthorizedError(ProblemError):
    """401: the key is missing, unknown, expired or revoked."""


class ForbiddenError(ProblemError):
    """403: the role of the key does not suffice."""


class NotFoundError(ProblemError):
    """404: there is no such turn or session, or another tenant has it."""


class ConflictError(ProblemError):
    """409: the session is busy, or the turn's id is taken."""

    @property
    def turn_id(self) -> str | None:
        """The open turn of a busy session."""
        found = self.document.get("turn_id")
        return None if found is None else str(found)


class InvalidRequestError(ProblemError):
    """Any other 4xx: the request has to be changed."""


class TooManyRequestsError(ProblemError):
    """429: a limit is used up. This try has done nothing; an earlier one, whose answer was lost, may have."""


class UnavailableError(ProblemError):
    """5xx: the service can't do it now."""


class WebhookRefusedError(ClientError):
    """The post is not signed with the secret, or is too old: answer 401."""


_BY_STATUS: dict[int, type[ProblemError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    429: TooManyRequestsError,
}


def problem(document: Mapping[str, Any], status: int, retry_after: float | None) -> ProblemError:
    """The error for a response of the API."""
    usual = UnavailableError if status >= 500 else InvalidRequestError
    return _BY_STATUS.get(status, usual)(document, status, retry_after)
