"""All that an operator can see of a turn: reads it, and prints it."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from turnstile.ops.terminal.clocks import read_clock
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator
from turnstile.ops.terminal.output import print_fields, print_json, print_text, say
from turnstile.ops.turns.attempts import EndedAttempt, read_attempts
from turnstile.ops.turns.attempts_table import print_attempts
from turnstile.ops.turns.operator_turns import TurnMessage, find_tenants, read_messages
from turnstile.ops.turns.turn_document import OF_HANDLER, attempt_document, measure_turn, turn_document
from turnstile.ops.turns.wait_for_turn import wait_until_ended
from turnstile.queries.turns import read_turn
from turnstile.turn.turn_record import TurnRecord


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """All that an operator can see of a turn."""

    turn: TurnRecord
    attempts: list[EndedAttempt]
    said: list[TurnMessage]
    at: datetime
    """When it was read, by the database's clock."""


async def read_shown(
    operator: Operator, turn_id: UUID, tenant: str | None = None, wait_seconds: float | None = None
) -> ShownTurn:
    """Reads a turn. With `wait_seconds`, waits at most that long for its end. Raises CommandError if there is none."""
    database = operator.database
    tenants = await find_tenants(database, turn_id)
    tenant_id = tenant or next(iter(tenants), "")
    for other in tenants:
        if other != tenant_id:
            say(f"tenant {other} has a turn of this id, too (--tenant)")

    async def read(_: float) -> TurnRecord:
        record = await read_turn(database, tenant_id, turn_id)
        if record is None:
            raise CommandError(f"there is no turn {turn_id}", ExitCode.NOT_FOUND)
        return record

    record = await wait_until_ended(read, lambda turn: turn.status, wait_seconds or 0.0)
    return ShownTurn(
        record,
        await read_attempts(database, tenant_id, turn_id),
        await read_messages(database, tenant_id, turn_id),
        await read_clock(database),
    )


def print_shown(shown: ShownTurn, *, show_text: bool, as_json: bool) -> None:
    """Prints a turn and its attempts; with `show_text` also what was said."""
    document = {**turn_document(shown.turn), **asdict(measure_turn(shown.turn, shown.at))}
    if as_json:
        said = {"messages": shown.said} if show_text else {}
        print_json({"turn": document, "attempts": [attempt_document(one) for one in shown.attempts], **said})
        return
    print_fields({**document, "timeout_seconds": shown.turn.timeout_seconds or f"{OF_HANDLER}, or the queue's"})
    print_attempts(shown.turn, shown.attempts, shown.at)
    if show_text:
        for message in shown.said:
            kind = "" if message.kind == "message" else f" ({message.kind})"
            content = message.content
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            print_text(f"\n{message.role}{kind}: {text}")
