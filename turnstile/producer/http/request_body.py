"""Reads a request's body, and never more than the allowed size, whatever its headers claim."""

import asyncio
import re

from starlette.requests import Request

from turnstile.producer.http.problems import Kind, ProblemError

PATIENCE_SECONDS = 30.0
"""Time limit for the whole body: a client that sends a byte a second must not occupy a connection for an hour."""

_CHARSET = re.compile(r'charset\s*=\s*"?([^\s";]*)')


async def read_json_body(request: Request, limit_bytes: int) -> bytes:
    """The body of a JSON request, not parsed. Raises ProblemError: 415, 413 or 408."""
    media_type, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    if media_type.strip() != "application/json":
        # A browser sends any other type across sites without asking.
        raise ProblemError(Kind.UNSUPPORTED_MEDIA_TYPE, "send Content-Type: application/json")
    charset = _CHARSET.search(parameters)
    if charset is not None and charset[1] not in {"utf-8", "utf8", "us-ascii"}:
        raise ProblemError(Kind.UNSUPPORTED_MEDIA_TYPE, "send the body in UTF-8")
    if request.headers.get("content-encoding", "").strip().lower() not in {"", "identity"}:
        raise ProblemError(Kind.UNSUPPORTED_MEDIA_TYPE, "send the body uncompressed, without a Content-Encoding")
    claimed = request.headers.get("content-length", "0")
    if claimed.isdecimal() and int(claimed) > limit_bytes:
        raise _too_large(limit_bytes)
    data = bytearray()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            # A chunked body has no Content-Length.
            async for chunk in request.stream():
                data += chunk
                if len(data) > limit_bytes:
                    raise _too_large(limit_bytes)
    except TimeoutError:
        raise ProblemError(Kind.BODY_TOO_SLOW, f"within {PATIENCE_SECONDS:g} s") from None
    return bytes(data)


def _too_large(limit_bytes: int) -> ProblemError:
    return ProblemError(Kind.BODY_TOO_LARGE, f"{limit_bytes} bytes at most")
