"""What a person or a program gives to a command: values that are checked before anything is done, and a yes or no.

Imported by every command when the command line starts, so it imports no driver.
"""

import math
import re
import sys
from typing import Any

import typer

from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.turn.message import ID_RULE, RESERVED_RULE, is_reserved_session, is_valid_id


def check_finite(number: float | None) -> float | None:
    """The value of an option in seconds, or BadParameter if it is negative, endless or no number.

    A `min` alone accepts what is endless, and with an older click also `nan`.
    """
    if number is not None and not 0 <= number < math.inf:
        raise typer.BadParameter("must be a finite number, and not negative")
    return number


def check_id(name: str, value: Any) -> None:
    """Raises CommandError, without the value, unless it may name a tenant or a session."""
    if not isinstance(value, str) or not is_valid_id(value):
        raise CommandError(f"{name} must be {ID_RULE}", ExitCode.USAGE)


def check_session(session_id: Any) -> None:
    """Raises CommandError unless a client may put turns into a session of that name."""
    check_id("the session", session_id)
    if is_reserved_session(session_id):
        raise CommandError(RESERVED_RULE, ExitCode.USAGE)


def check_key(key: Any) -> None:
    """Raises CommandError unless it may be an Idempotency-Key. The API's rule, as a header carries it there."""
    from turnstile.producer.submit.turn_request import IDEMPOTENCY_KEY_PATTERN, MAX_IDEMPOTENCY_KEY_CHARACTERS

    fits = isinstance(key, str) and len(key) <= MAX_IDEMPOTENCY_KEY_CHARACTERS
    if not fits or re.fullmatch(IDEMPOTENCY_KEY_PATTERN, key) is None or key.endswith("\n"):
        rule = f"1 to {MAX_IDEMPOTENCY_KEY_CHARACTERS} printable ASCII characters, with no space at either end"
        raise CommandError(f"the idempotency key must be {rule}", ExitCode.USAGE)


def confirm(question: str, *, yes: bool) -> None:
    """Returns if the person agrees, or gave --yes; else raises CommandError. A program without --yes is refused at once."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Nobody is there to answer: say --yes", ExitCode.USAGE)
    typer.echo(f"{question} [y/N] ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError("nothing was changed")
