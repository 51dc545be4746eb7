"""Which turns a redrive does not put back although an operator names them, and why."""

from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.ops.sessions.halted_session import Halt, read_halt
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.turns.operator_turns import read_turn_of_any
from turnstile.turn.status import TurnStatus


async def why_left_alone(database: Database, turn_id: UUID) -> str | None:
    """The reason, as the predicate of a sentence; None if a redrive may put the turn back.

    Raises CommandError if the turn does not exist.
    """
    halt = await read_halt(database, turn_id)
    if halt is None:
        turn = await read_turn_of_any(database, turn_id)
        if turn is None:
            raise CommandError(f"there is no turn {turn_id}; nothing was changed", ExitCode.NOT_FOUND)
        return f"is {turn.status} and in the archive: it can't run again; see turnstile status {turn_id}"
    if halt.status is not TurnStatus.FAILED:
        return f"is {halt.status}"
    if halt.halts:
        return f"is FAILED and halts its session: see turnstile retry {turn_id} and turnstile skip {turn_id}"
    return rerun_refusal(halt)


def rerun_refusal(halt: Halt) -> str | None:
    """Why neither a redrive nor a retry may run a FAILED turn again; None if they may."""
    if halt.replaced:
        return "is FAILED, and its parent has started it again since (see turnstile trace): a new run would repeat its work"
    if halt.compensated:
        return "is FAILED, and its compensation has not ended yet (see turnstile trace): it would undo the new run"
    if halt.overtaken:
        return "is FAILED, and the turn that it compensates was put back to work since: it would undo the new run"
    return None
