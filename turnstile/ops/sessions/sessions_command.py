"""`turnstile sessions --stuck`: the sessions that do not move, each with the reason that `turnstile why` gives."""

from typing import Annotated

import typer

from turnstile.ops.sessions.stuck_sessions import REACH, StuckSession, find_stuck_sessions
from turnstile.ops.terminal.folding import fold, terminal_columns, whole
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, Limit, QueueName, TenantId, age_option
from turnstile.ops.terminal.output import plural, print_json, print_text, say, short_time
from turnstile.ops.why.answer import Answer, as_document, command_lines
from turnstile.ops.why.look import explain_turns
from turnstile.ops.why.reason import Code

OLDER_THAN_SECONDS = 300.0


def sessions(
    stuck: Annotated[bool, typer.Option("--stuck", help="List the sessions that do not move.")] = False,
    queue: QueueName = None,
    tenant: TenantId = None,
    older_than: Annotated[
        float, age_option("Shortest time that their head has been due.", OLDER_THAN_SECONDS)
    ] = OLDER_THAN_SECONDS,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List the sessions that do not move, those that have waited longest first, with the reason and the command that moves each.

    A session is stuck if its head is due for longer than --older-than and does not run, if the lease of its head ran out, or if a
    FAILED turn halts it.

    --json: sessions (each as `turnstile why --json`, without lines, and with since: the time), truncated (true: more due turns
    than were read).
    """
    if not stuck:
        raise typer.BadParameter("which sessions? --stuck lists the sessions that do not move")
    settings = load_settings()
    settings.select_queues(queue)
    found = operate(settings, _find, queue, tenant, older_than, limit)
    truncated = any(one.truncated for one, _ in found)
    if as_json:
        documents = [
            {"since": one.since, **as_document(answer), "commands": answer.reason.commands} for one, answer in found
        ]
        print_json({"sessions": documents, "truncated": truncated})
        return
    for session, answer in found:
        for line in _as_lines(session, answer, terminal_columns()):
            print_text(line)
    if not found:
        say("no session is stuck")
    if len(found) == limit:
        say(f"{plural(limit, 'session')}, the longest wait first; there may be more (--limit)")
    if truncated:
        say(f"only the {REACH} oldest due turns of a queue were read: younger stuck sessions of it may be missing")


def _as_lines(session: StuckSession, answer: Answer, columns: int) -> list[str]:
    reason = answer.reason
    code = reason.facts["reason"]["code"] if reason.code is Code.BEHIND else reason.code
    parts = (
        f"session {session.session_id} of tenant {session.tenant_id}",
        f"queue {session.queue}",
        f"{code} since {short_time(session.since)}",
        f"turn {session.id}",
    )
    head = fold("  ".join(whole(part) for part in parts), columns)
    return [*head, *(f"  {line}" for line in command_lines(answer))]


async def _find(
    operator: Operator, queue: str | None, tenant: str | None, older_than_seconds: float, limit: int
) -> list[tuple[StuckSession, Answer]]:
    found = await find_stuck_sessions(
        operator.database, older_than_seconds=older_than_seconds, limit=limit, queue=queue, tenant_id=tenant
    )
    answers = await explain_turns(operator.settings, operator.database, [one.id for one in found])
    # A turn may have ended and gone to the archive since.
    return [(one, answers[one.id]) for one in found if one.id in answers]
