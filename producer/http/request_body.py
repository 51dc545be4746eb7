"""Reads a request's JSON body, and never more than the allowed size, whatever its headers claim."""

import asyncio
from typing import Any

from starlette.requests import Request

from turnstile.producer.http.problems import Fault, Kind, ProblemError
from turnstile.producer.http.strict_json import NotJsonError, RefusedJsonError, parse

PATIENCE_SECONDS = 30.0
"""Time limit for the whole body: a client that sends a byte a second must not occupy a connection for an hour."""


async def read_json(request: Request, limit_bytes: int) -> Any:
    """The parsed body. Raises ProblemError: 415, 413, 408, 400 (not JSON) or 422 (JSON that can't be stored)."""
    _refuse_media_type(request)
    data = await _read(request, limit_bytes)
    try:
        return parse(data)
    except NotJsonError as error:
        raise ProblemError(Kind.INVALID_JSON, str(error)) from None
    except RefusedJsonError as error:
        fault = Fault(detail=error.reason, pointer=error.pointer)
        detail = error.reason if error.pointer is None else f"{error.pointer}: {error.reason}"
        raise ProblemError(Kind.INVALID_BODY, detail, errors=[fault]) from None


def _refuse_media_type(request: Request) -> None:
    essence, _, parameters = request.headers.get("content-type", "").partition(";")
    if essence.strip().lower() != "application/json":
        raise ProblemError(Kind.UNSUPPORTED_MEDIA_TYPE, "send Content-Type: application/json")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    if charset not in {"", "utf-8", "utf8"}:
        raise ProblemError(Kind.UNSUPPORTED_MEDIA_TYPE, "JSON is sent in UTF-8")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        # Decompressed, the body could be a thousand times its Content-Length.
        raise ProblemError(Kind.UNSUPPORTED_MEDIA_TYPE, "send the body uncompressed")


async def _read(request: Request, limit_bytes: int) -> bytes:
    claimed = request.headers.get("content-length", "0")
    if claimed.isdecimal() and (len(claimed) > 15 or int(claimed) > limit_bytes):
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
