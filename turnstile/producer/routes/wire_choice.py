"""Which wire a client has chosen: by `?as=`, or by the `profile` of its `Accept`."""

import re
from typing import Annotated

from fastapi import Query, Request

from turnstile.producer.http.problems import Fault, Kind, ProblemError, invalid_parameters
from turnstile.streaming.wires.wire import Wire

CHOICES = ", ".join(Wire)
PARAMETER = "as"

ChosenWire = Annotated[
    Wire | None,
    Query(
        alias=PARAMETER,
        description="The form of the events: Turnstile's own, the AI SDK's UI message stream v1, or AG-UI 1.0. It takes "
        "precedence over `Accept: text/event-stream; profile=ai-sdk`.",
    ),
]

_PROFILE = re.compile(r"""\s*text/event-stream\s*;(?:[^,]*;)?\s*profile\s*=\s*"?([^",;\s]*)"?""", re.IGNORECASE)


def choose_wire(chosen: Wire | None, request: Request) -> Wire:
    """Raises the 406."""
    return chosen or accepted_wire(request.headers.getlist("accept"))


def named_wire(text: str | None) -> Wire | None:
    """The wire that `?as=` names, for a request that FastAPI does not parse. Raises the 422."""
    if text is None or text in set(Wire):
        return None if text is None else Wire(text)
    raise invalid_parameters(Fault(detail=f"one of {CHOICES}", parameter=PARAMETER))


def accepted_wire(accept: list[str]) -> Wire:
    """The first wire among the profiles of an `Accept`; Turnstile's own if it has no profile. Raises the 406 if it knows none."""
    profiles = [found[1] for value in accept for one in value.split(",") if (found := _PROFILE.match(one))]
    for profile in profiles:
        if profile in set(Wire):
            return Wire(profile)
    if profiles:
        raise ProblemError(Kind.NOT_ACCEPTABLE, f"the `profile` of `Accept` is one of {CHOICES}")
    return Wire.TURNSTILE
