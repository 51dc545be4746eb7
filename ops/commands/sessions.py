"""`turnstile sessions --stuck`: the sessions that do not move, each with the reason that `turnstile why` gives."""

from typing import Annotated

import typer

from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, Limit, QueueName, age_option
from turnstile.ops.terminal.output import Columns, print_json, print_table, say
from turnstile.ops.waiting.look import explain_turns
from turnstile.ops.waiting.reason import Answer, Behind, as_document, code_of
from turnstile.ops.waiting.words import describe
from turnstile.queries.stuck_sessions import REACH, StuckSession, find_stuck_sessions

OLDER_THAN_SECONDS = 300.0


def sessions(
    stuck: Annotated[bool, typer.Option("--stuck", help="Those that do not move.")] = False,
    queue: QueueName = None,
    older_than: Annotated[
        float, age_option("How long their head has been due at least.", OLDER_THAN_SECONDS)
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
        raise typer.BadParameter("say which: --stuck lists the sessions that do not move")
    settings = load_settings()
    settings.select_queues(queue)
    found = operate(settings, _find, queue, older_than, limit)
    truncated = any(one.truncated for one, _ in found)
    if as_json:
        documents = [
            {"since": one.since, **as_document(answer), "commands": describe(answer).commands} for one, answer in found
        ]
        print_json({"sessions": documents, "truncated": truncated})
        return
    columns: Columns = {
        "tenant": lambda pair: pair[0].tenant_id,
        "session": lambda pair: pair[0].session_id,
        "queue": lambda pair: pair[0].queue,
        "turn": lambda pair: pair[0].id,
        "since": lambda pair: pair[0].since,
        "reason": lambda pair: _reason(pair[1]),
        "to move it": lambda pair: ", or ".join(describe(pair[1]).commands),
    }
    print_table(columns, found)
    if len(found) == limit:
        say(f"the {limit} that have waited longest; there may be more (--limit)")
    if truncated:
        say(f"only the {REACH} oldest due turns of a queue were read: younger stuck sessions of it may be missing")


def _reason(answer: Answer) -> str:
    reason = answer.reason
    return code_of(type(reason.reason if isinstance(reason, Behind) else reason))


async def _find(
    operator: Operator, queue: str | None, older_than_seconds: float, limit: int
) -> list[tuple[StuckSession, Answer]]:
    found = await find_stuck_sessions(
        operator.database, older_than_seconds=older_than_seconds, limit=limit, queue=queue
    )
    answers = await explain_turns(operator.settings, operator.database, [one.id for one in found])
    # A turn may have ended and gone to the archive since.
    return [(one, answers[one.id]) for one in found if one.id in answers]
