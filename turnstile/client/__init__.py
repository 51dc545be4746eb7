"""The client of the API, for asyncio and for code without an event loop.

    import turnstile.client

    async with turnstile.client.AsyncClient("https://turnstile.example", api_key=key) as client:
        async for event in client.session("chat-1").send("hi"):
            ...

The import is light: other services import it, and it loads no driver and no part of the server.
"""

from turnstile.client.async_client import AsyncClient, AsyncSession
from turnstile.client.documents import (
    BatchTurn,
    BrowserToken,
    CancelAnswer,
    SessionCancelAnswer,
    SessionDetail,
    SessionMessage,
    SessionSummary,
    Submitted,
    Turn,
    TurnError,
    TurnOptions,
    TurnSummary,
    Webhook,
)
from turnstile.client.errors import (
    ApiUnreachableError,
    ClientError,
    ConflictError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    ProblemError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
    UnexpectedAnswerError,
    WebhookRefusedError,
)
from turnstile.client.events import Begin, Custom, Delta, End, Event, Reset, Status
from turnstile.client.sync_client import Client, Session
from turnstile.client.webhook import verify_webhook

__all__ = [
    "ApiUnreachableError",
    "AsyncClient",
    "AsyncSession",
    "BatchTurn",
    "Begin",
    "BrowserToken",
    "CancelAnswer",
    "Client",
    "ClientError",
    "ConflictError",
    "Custom",
    "Delta",
    "End",
    "Event",
    "ForbiddenError",
    "InvalidRequestError",
    "NotFoundError",
    "ProblemError",
    "Reset",
    "Session",
    "SessionCancelAnswer",
    "SessionDetail",
    "SessionMessage",
    "SessionSummary",
    "Status",
    "Submitted",
    "TooManyRequestsError",
    "Turn",
    "TurnError",
    "TurnOptions",
    "TurnSummary",
    "UnauthorizedError",
    "UnavailableError",
    "UnexpectedAnswerError",
    "Webhook",
    "WebhookRefusedError",
    "verify_webhook",
]
