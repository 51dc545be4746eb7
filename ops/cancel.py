"""`turnstile cancel`: a waiting turn at once, a running one by request (G15)."""

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from ops.exit_codes import CommandError, ExitCode
from ops.output import AsJson, print_json, say

if TYPE_CHECKING:
    from turns.cancellation import CanceledTurn
    from turns.settings import Settings


def cancel(
    turn: Annotated[UUID, typer.Argument(metavar="TURN")],
    as_json: AsJson = False,
) -> None:
    """Cancel a turn: at once while it waits, by request while it runs. One that has ended stays as it is."""
    from ops.operator_access import load_settings, run
    from turns.status import TurnStatus

    canceled = run(_cancel(load_settings(), turn))
    if as_json:
        print_json({"id": turn, "status": canceled.status, "requested": canceled.requested})
    if canceled.requested:
        running = canceled.status is TurnStatus.RUNNING
        say(
            f"{turn} is asked to stop; its worker learns of it with the next heartbeat"
            if running
            else f"{turn} is CANCELED"
        )
        return
    say(f"{turn} had ended before: {canceled.status}")
    if canceled.status is not TurnStatus.CANCELED:
        raise typer.Exit(ExitCode.FAILED)


async def _cancel(settings: "Settings", turn_id: UUID) -> "CanceledTurn":
    from ops.operator_access import operator_database
    from turns.cancellation import CancelReason
    from turns.cancellation import cancel as cancel_turn
    from turns.operator_reading import find_tenant

    async with operator_database(settings) as database:
        tenant_id = await find_tenant(database, turn_id)
        canceled = tenant_id and await cancel_turn(database, tenant_id, turn_id, CancelReason.USER)
    if not canceled:
        raise CommandError(f"there is no turn {turn_id}", ExitCode.NOT_FOUND)
    await _wake(settings, canceled)
    return canceled


async def _wake(settings: "Settings", canceled: "CanceledTurn") -> None:
    if canceled.woken is None:
        return
    from turns.errors import QueueUnavailableError, UnknownQueueError
    from turns.message_queue import MessageQueues

    queue, message = canceled.woken
    queues = MessageQueues(settings)
    try:
        await queues.send(queue, [message])
    except (QueueUnavailableError, UnknownQueueError):
        say("the queue is away; the relay wakes the session's next turn")
    finally:
        queues.close()
