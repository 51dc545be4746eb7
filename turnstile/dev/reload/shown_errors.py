"""The handler of `turnstile dev`: the user's own, whose errors appear in the terminal with their text and their lines.

Logs elsewhere have neither, because an error's text may quote what a user has said.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from turnstile.dev.reload.code_error import describe
from turnstile.handlers.handler import Handler
from turnstile.ops.terminal.output import say


def show_errors(handler: Handler, folder: Path) -> Handler:
    """A handler that behaves like this one, and prints what it raises."""
    compensation = handler.on_failed and show_errors(handler.on_failed, folder)
    return replace(handler, function=_shown(handler, folder), on_failed=compensation)


def _shown(handler: Handler, folder: Path) -> Callable[[Any, Any], Any]:
    function = handler.function
    if handler.is_generator:

        @functools.wraps(function)
        async def generate(turn: Any, ctx: Any) -> Any:
            with _printing(turn, folder):
                async with aclosing(function(turn, ctx)) as values:
                    async for value in values:
                        yield value

        return generate
    if handler.is_async:

        @functools.wraps(function)
        async def answer(turn: Any, ctx: Any) -> Any:
            with _printing(turn, folder):
                return await function(turn, ctx)

        return answer

    @functools.wraps(function)
    def call(turn: Any, ctx: Any) -> Any:
        with _printing(turn, folder):
            return function(turn, ctx)

    return call


@contextmanager
def _printing(turn: Any, folder: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        say(f"\nthe handler raised in session {turn.session_id}, turn {turn.id}:\n{describe(error, folder)}\n")
        raise
