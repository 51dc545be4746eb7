"""A span that can't be recorded is a line in the log, and nothing else: no turn ends or stops because of telemetry.

The provider may be one that the handler's module has set. The SDK lets errors of its processors and samplers through.
"""

import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from turnstile.telemetry.own_log import log

Given = ParamSpec("Given")
Result = TypeVar("Result")

FRAMES = 3
"""Of the error's stack, the innermost: a step may fail for every turn."""


def never_raises(step: Callable[Given, Result]) -> Callable[Given, Result | None]:
    """The same step, except that an error is one WARNING line, and the result is None then."""

    @wraps(step)
    def guarded(*given: Given.args, **named: Given.kwargs) -> Result | None:
        try:
            return step(*given, **named)
        except Exception as error:
            # The place, but not the error's text, which may quote a message.
            where = "".join(traceback.format_tb(error.__traceback__)[-FRAMES:])
            log.warning("tracing.failed", step=step.__qualname__, error_class=type(error).__name__, where=where)
            return None

    return guarded
