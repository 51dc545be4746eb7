"""The routes, as FastAPI runs them."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant

from turnstile.producer.http.parameters import refuse_unknown_parameters
from turnstile.producer.http.problems import ProblemError
from turnstile.producer.routes import cancel_route, stream_route, token_route, turn_routes
from turnstile.producer.routes.health_routes import health
from turnstile.producer.routes.path_parameters import read_turn_id
from turnstile.producer.routes.session_limit import keep_in_session

ID = "2f1c1b52-8f0e-4c39-a1bb-5ab4b3bb3b1e"


def test_no_dependency_of_a_route_runs_on_a_thread() -> None:
    routers = (turn_routes.v1, health, cancel_route.v1, stream_route.v1, token_route.v1)
    routes: list[Any] = [route for router in routers for route in router.routes]
    needed = [call for route in routes for call in _calls(route.dependant)]

    assert len(needed) > len(routes)
    assert [call for call in (*needed, refuse_unknown_parameters, keep_in_session) if not _is_async(call)] == []


@pytest.mark.parametrize(
    "text", ["", "x", ID + "\n", f"{{{ID}}}", f"urn:uuid:{ID}", ID.replace("-", ""), "\u0662" + ID[1:]]
)
def test_only_the_usual_form_is_a_turn_id_in_a_path(text: str) -> None:
    with pytest.raises(ProblemError, match="no such turn"):
        read_turn_id(text)


def _calls(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    if dependant.call is not None:
        yield dependant.call
    for needed in dependant.dependencies:
        yield from _calls(needed)


def _is_async(call: Any) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004
