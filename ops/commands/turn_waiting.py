"""Waits for a turn to end by polling with growing pauses."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.output import print_json, print_text, say
from turnstile.turn.status import TurnStatus

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
GROWTH = 1.5

Document = dict[str, Any]


async def wait_until_ended(read: Callable[[float], Awaitable[Document]], seconds: float) -> Document:
    """The turn, from `read`, once it has ended or the time is up. The argument of `read` is the longest wait in seconds.

    Retries while a service is unavailable. Raises the last CommandError if no read succeeded.
    """
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE_SECONDS
    turn: Document | None = None
    while True:
        try:
            turn = await read(max(0.0, deadline - time.monotonic()))
        except CommandError as error:
            if error.code is not ExitCode.UNAVAILABLE or (time.monotonic() >= deadline and turn is None):
                raise
        if turn is not None and (TurnStatus(turn["status"]).is_terminal or time.monotonic() >= deadline):
            return turn
        await asyncio.sleep(max(0.01, min(pause, deadline - time.monotonic())))
        pause = min(LONGEST_PAUSE_SECONDS, pause * GROWTH)


def report_ended(turn_id: UUID | str, turn: Document, *, as_json: bool) -> ExitCode:
    """Prints the reply or the status of the turn, and returns the exit code."""
    status = TurnStatus(turn["status"])
    if as_json:
        print_json(turn)
    elif status is TurnStatus.SUCCEEDED:
        output = turn["output"]
        print_text(output if isinstance(output, str) else json.dumps(output, ensure_ascii=False))
    if status is TurnStatus.SUCCEEDED:
        return ExitCode.OK
    error = turn.get("error") or {}
    reason = f": {error.get('class')}: {error.get('message')}" if error and status is TurnStatus.FAILED else ""
    still = "" if status.is_terminal else "still "
    say(f"turn {turn_id} is {still}{status}{reason}")
    return ExitCode.FAILED
