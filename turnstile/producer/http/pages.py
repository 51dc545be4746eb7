"""CORS: which websites' pages may call the API from a browser. Without it a browser shows its answers to no other website."""

from collections.abc import Sequence

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

MAY_SEND = ("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "Prefer", "traceparent")
MAY_READ = (
    "Location",
    "X-Turn-Id",
    "Retry-After",
    "Idempotency-Replayed",
    "Preference-Applied",
    "RateLimit",
    "RateLimit-Policy",
    "traceparent",
)
ASK_AGAIN_SECONDS = 600
"""How long a browser remembers that it may call."""


def allow_pages(app: FastAPI, origins: Sequence[str], pattern: str | None = None) -> None:
    """Lets pages of these origins, and of those that fit the pattern, call the API. A browser asks first, without a key, so this
    stands before all that needs one.

    No cookies: a page shows its token in the Authorization header, and no other page of the browser can send that.
    """
    app.add_middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_origin_regex=pattern,
        allow_methods=["GET", "POST"],
        allow_headers=MAY_SEND,
        expose_headers=MAY_READ,
        allow_credentials=False,
        max_age=ASK_AGAIN_SECONDS,
    )
