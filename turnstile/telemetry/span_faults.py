"""A span that can't be recorded is a line in the log, and nothing else: no turn ends or stops because of telemetry.

The provider may be one that the handler's module has set. The SDK lets errors of its processors and samplers through.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import structlog

Given = ParamSpec("Given")
Result = TypeVar("Result")

log = structlog.get_logger("turnstile.telemetry")


def never_raises(step: Callable[Given, Result]) -> Callable[Given, Result | None]:
    """The same step, except that an error is one WARNING line, and the result is None then."""

    @wraps(step)
    def guarded(*given: Given.args, **named: Given.kwargs) -> Result | None:
        try:
            return step(*given, **named)
        except Exception as error:
            # Without the error's text, which may quote a message.
            log.warning("tracing.failed", step=step.__qualname__, error_class=type(error).__name__)
            return None

    return guarded
