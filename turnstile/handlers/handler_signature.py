"""Checks that an object can be called like a handler, when the handler is made and not when a turn arrives."""

import inspect
from typing import Any


class UnfitHandlerError(TypeError):
    """The object can't be called with (turn, ctx). `place` is its file and line, if known."""

    def __init__(self, message: str, place: str | None = None) -> None:
        super().__init__(message if place is None else f"{message} ({place})")
        self.place = place


def check_shape(function: Any) -> None:
    """Raises UnfitHandlerError, with file and line if known, unless `function` can be a handler."""
    if not callable(function):
        raise UnfitHandlerError(
            f"{type(function).__name__} is not a function (turn, ctx); options have names, as in @handler(timeout=120)"
        )
    name = getattr(function, "__qualname__", type(function).__name__)
    if inspect.isgeneratorfunction(function):
        raise UnfitHandlerError(f"{name} is a generator: write `async def`, which may yield", _place_of(function))
    try:
        # The wrapper's own signature counts: a decorator may pass more arguments to the wrapped function than it receives.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return  # a C function that does not expose its signature
    try:
        signature.bind(None, None)
    except TypeError:
        plain = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
        takes = signature.replace(parameters=plain, return_annotation=signature.empty)
        raise UnfitHandlerError(
            f"{name} takes {takes}, and a handler is called with (turn, ctx)", _place_of(function)
        ) from None


def _place_of(found: Any) -> str | None:
    code = getattr(inspect.unwrap(found), "__code__", None)
    return None if code is None else f"{code.co_filename}, line {code.co_firstlineno}"
