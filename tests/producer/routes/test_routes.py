"""The routes, as FastAPI runs them."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from fastapi.dependencies.models import Dependant

from turnstile.producer.http.parameters import refuse_unknown_parameters
from turnstile.producer.routes import cancel as cancel_routes
from turnstile.producer.routes import stream
from turnstile.producer.routes import turns as api


def test_no_dependency_of_a_route_runs_on_a_thread() -> None:
    routes: list[Any] = [*api.v1.routes, *api.health.routes, *cancel_routes.v1.routes, *stream.v1.routes]
    needed = [call for route in routes for call in _calls(route.dependant)]

    assert len(needed) > len(routes)
    assert [call for call in (*needed, refuse_unknown_parameters) if not _is_async(call)] == []


def _calls(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    if dependant.call is not None:
        yield dependant.call
    for needed in dependant.dependencies:
        yield from _calls(needed)


def _is_async(call: Any) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004
