"""Refuses parameters and headers that would otherwise be ignored silently: unknown ones, and repeated ones."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import cast

from fastapi import Request
from fastapi.routing import APIRoute

from turnstile.producer.http.problems import Fault, invalid_parameters

MOST_NAMED = 10
"""Parameters that the response names. Without a limit, one small request of thousands would block the event loop."""

ONCE = {b"idempotency-key": "Idempotency-Key", b"last-event-id": "Last-Event-ID"}
"""Headers that say which turn, or which event: of two, nobody knows which one is meant."""


async def refuse_unknown_parameters(request: Request) -> None:
    """Raises the 422. A coroutine although it awaits nothing: FastAPI would run a plain function on a thread for each request."""
    route = cast("APIRoute", request.scope["route"])
    refuse_wrong_parameters(request, known={field.alias for field in route.dependant.query_params})


def refuse_wrong_parameters(request: Request, *, known: Collection[str]) -> None:
    """Raises the 422 if the query has a parameter that is not `known`, which a misspelt filter is, or has one twice."""
    takes = f"one of {', '.join(sorted(known))}" if known else "there are none here"
    faults = [
        Fault(detail="give it once" if name in known else f"no such parameter: {takes}", parameter=name)
        for name, count in Counter(name for name, _ in request.query_params.multi_items()).items()
        if name not in known or count > 1
    ]
    if faults:
        raise invalid_parameters(*faults[:MOST_NAMED])


def refuse_repeated_headers(headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Raises the 422 if a header of ONCE is there more than once."""
    names = [name for name, _ in headers]
    repeated = [spelling for name, spelling in ONCE.items() if names.count(name) > 1]
    if repeated:
        raise invalid_parameters(*(Fault(detail="give it once", parameter=name) for name in repeated))
