"""`turnstile why`: the one thing that a turn, or a session's head, waits for."""

from typing import Annotated
from uuid import UUID

import typer

from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, TenantId
from turnstile.ops.terminal.output import print_json, print_text
from turnstile.ops.why.answer import Answer, as_document, as_lines
from turnstile.ops.why.look import explain_session, explain_turn
from turnstile.turn.identifiers import DEFAULT_TENANT, is_valid_id


def why(
    which: Annotated[str, typer.Argument(metavar="TURN|SESSION", help="A turn's id, or a session's.")],
    tenant: TenantId = None,
    as_json: AsJson = False,
) -> None:
    """Say what a turn waits for, with the evidence and the command that would move it; of a session, what its head waits for.

    A session is that of tenant `default`, unless --tenant names another.

    --json: at, tenant_id, session_id, turn (id, seq, queue, status, attempt, queued_at, started_at), reason (its code, and the
    facts that the code has), expired_at, redis_away (why the lock was not looked at), foreign_lock
    (its key, if no worker has set it), lines, commands.
    """
    if not is_valid_id(which):
        raise typer.BadParameter(f"{which!r} is neither a turn's id nor a session's")
    answer = operate(load_settings(), _find_answer, which, tenant)
    if as_json:
        print_json({**as_document(answer), "lines": as_lines(answer), "commands": answer.reason.commands})
        return
    for line in as_lines(answer):
        print_text(line)


async def _find_answer(operator: Operator, which: str, tenant: str | None) -> Answer:
    """The answer about the turn with this id or, without one, about the session. Raises CommandError if there is neither."""
    turn_id = _turn_id(which)
    owner = DEFAULT_TENANT if tenant is None else tenant
    answer = turn_id and await explain_turn(operator.settings, operator.database, turn_id, tenant)
    answer = answer or await explain_session(operator.settings, operator.database, owner, which)
    if not answer:
        missing = f"there is no turn {which}, and" if turn_id else ""
        raise CommandError(f"{missing} tenant {owner} has no session {which}".strip(), ExitCode.NOT_FOUND)
    return answer


def _turn_id(text: str) -> UUID | None:
    # A session's id may look like a turn's.
    try:
        return UUID(text)
    except ValueError:
        return None
