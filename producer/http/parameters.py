"""Refuses unknown query parameters by name: otherwise a misspelt filter would be ignored and the list unfiltered."""

from collections.abc import Collection
from typing import cast

from fastapi import Request
from fastapi.routing import APIRoute

from turnstile.producer.http.problems import Fault, invalid_parameters

MOST_NAMED = 10
"""Unknown parameters that the response names. Without a limit, one small request of thousands would block the event loop."""


async def refuse_unknown_parameters(request: Request) -> None:
    """Raises the 422. A coroutine although it awaits nothing: FastAPI would run a plain function on a thread for each request."""
    route = cast("APIRoute", request.scope["route"])
    refuse_unknown(request, known={field.alias for field in route.dependant.query_params})


def refuse_unknown(request: Request, *, known: Collection[str]) -> None:
    """Raises the 422 if the query has a parameter that is not `known`."""
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        takes = f"one of {', '.join(sorted(known))}" if known else "there are none here"
        names = list(dict.fromkeys(unknown))[:MOST_NAMED]
        raise invalid_parameters(*(Fault(detail=f"no such parameter: {takes}", parameter=name) for name in names))
