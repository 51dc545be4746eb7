"""`turnstile queues pause` and `resume`: asks for confirmation, prints what holds afterwards."""

from typing import Annotated, Any

import typer

from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, Yes, confirm
from turnstile.ops.terminal.output import plural, print_json, print_text, say, short_time
from turnstile.queries.backlog import read_backlog
from turnstile.statements.paused_queues import PausedQueue, pause_queue, read_paused_queues, resume_queue

Queue = Annotated[str, typer.Argument(metavar="NAME", help="A declared queue.")]


def pause(
    queue: Queue,
    reason: Annotated[str | None, typer.Option(help="Why, for those who look at the queue.")] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Pause a queue: within a heartbeat its workers stop beginning turns. Running turns continue, and new ones are accepted.

    A pause does not move the turns' expires_at: a turn that has already been tried may expire during the pause. If the queue is
    paused already, another --reason replaces the reason and who gave it. `turnstile queues resume` ends the pause.

    --json: queue, paused, changed, paused_by, reason, paused_at.
    """
    settings = load_settings()
    settings.find_queue(queue)
    before, due = operate(settings, _read, queue)
    changed = False
    if before is None or reason not in {None, before.reason}:
        begins = f"Within {settings.heartbeat:g} s its workers stop beginning turns, until it is resumed."
        question = (
            f"Pause queue {queue!r}, with {plural(due, 'due turn')}? {begins}"
            if before is None
            else f"Change the reason of the pause of {queue!r}, which is {_state(before)}?"
        )
        confirm(question, yes=yes)
        changed = operate(settings, _pause, queue, reason)
    after, _ = operate(settings, _read, queue)
    _print(queue, after, changed=changed, as_json=as_json)


def resume(queue: Queue, yes: Yes = False, as_json: AsJson = False) -> None:
    """Resume a paused queue: its workers begin turns again, within a heartbeat. A queue that is not paused stays as it is.

    --json: queue, paused, changed, paused_by, reason, paused_at.
    """
    settings = load_settings()
    settings.find_queue(queue)
    before, due = operate(settings, _read, queue)
    changed = False
    if before is not None:
        confirm(f"Resume queue {queue!r}, which is {_state(before)}? Turns that are due: {due}.", yes=yes)
        changed = operate(settings, _resume, queue)
    after, _ = operate(settings, _read, queue)
    _print(queue, after, changed=changed, as_json=as_json)


async def _read(operator: Operator, queue: str) -> tuple[PausedQueue | None, int]:
    paused = await read_paused_queues(operator.database)
    (backlog,) = await read_backlog(operator.database, [queue])
    return paused.get(queue), backlog.due


async def _pause(operator: Operator, queue: str, reason: str | None) -> bool:
    return await pause_queue(operator.database, queue, paused_by=operator.name, reason=reason)


async def _resume(operator: Operator, queue: str) -> bool:
    return await resume_queue(operator.database, queue, resumed_by=operator.name)


def _state(paused: PausedQueue) -> str:
    reason = f" ({paused.reason})" if paused.reason else ""
    return f"paused by {paused.paused_by} since {short_time(paused.paused_at)}{reason}"


def _print(queue: str, paused: PausedQueue | None, *, changed: bool, as_json: bool) -> None:
    document: dict[str, Any] = {
        "queue": queue,
        "paused": paused is not None,
        "changed": changed,
        "paused_by": paused and paused.paused_by,
        "reason": paused and paused.reason,
        "paused_at": paused and paused.paused_at,
    }
    if as_json:
        print_json(document)
    else:
        state = _state(paused) if paused else "resumed" if changed else "not paused"
        print_text(f"queue {queue} is {state}")
    if not changed:
        say("nothing was changed: it is paused already" if paused else "nothing was changed: it is not paused")
