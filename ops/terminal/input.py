"""The input of a command: checks of values before anything is done, and the confirmation.

Every command imports this file at the start, so it imports no driver.
"""

import math
import re
import sys
from typing import Any

import typer

from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.turn.message import ID_RULE, RESERVED_RULE, is_reserved_session, is_valid_id


def check_finite(number: float | None) -> float | None:
    """The value of an option in seconds. Raises BadParameter if it is negative, infinite or not a number.

    `min` alone accepts `inf`, and with an older click also `nan`.
    """
    if number is not None and not 0 <= number < math.inf:
        raise typer.BadParameter("must be a finite number, and not negative")
    return number


def check_id(name: str, value: Any) -> None:
    """Raises CommandError, without the value, unless it is a valid id of a tenant or a session."""
    if not isinstance(value, str) or not is_valid_id(value):
        raise CommandError(f"{name} must be {ID_RULE}", ExitCode.USAGE)


def check_session(session_id: Any) -> None:
    """Raises CommandError unless clients may submit turns to a session of that name."""
    check_id("the session", session_id)
    if is_reserved_session(session_id):
        raise CommandError(RESERVED_RULE, ExitCode.USAGE)


def check_key(key: Any) -> None:
    """Raises CommandError unless the key is valid as an Idempotency-Key header of the API."""
    from turnstile.producer.submit.turn_request import IDEMPOTENCY_KEY_PATTERN, MAX_IDEMPOTENCY_KEY_CHARACTERS

    fits = isinstance(key, str) and len(key) <= MAX_IDEMPOTENCY_KEY_CHARACTERS
    if not fits or re.fullmatch(IDEMPOTENCY_KEY_PATTERN, key) is None or key.endswith("\n"):
        rule = f"1 to {MAX_IDEMPOTENCY_KEY_CHARACTERS} printable ASCII characters, with no space at either end"
        raise CommandError(f"the idempotency key must be {rule}", ExitCode.USAGE)


def confirm(question: str, *, yes: bool) -> None:
    """Raises CommandError unless the operator confirms or gave --yes. Without a terminal and --yes, raises at once."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Nobody is there to answer: say --yes", ExitCode.USAGE)
    typer.echo(f"{question} [y/N] ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError("nothing was changed")
