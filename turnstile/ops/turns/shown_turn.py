"""All that an operator can see of a turn: reads it, and prints it."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from turnstile.audit.event import AuditKind
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
    said: list[TurnMessage] | None
    """What was said; None if nobody asked for it."""
    at: datetime
    """When it was read, by the database's clock."""


async def read_shown(
    operator: Operator,
    turn_id: UUID,
    tenant: str | None = None,
    wait_seconds: float | None = None,
    *,
    with_text: bool = False,
) -> ShownTurn:
    """Reads a turn. With `wait_seconds`, waits at most that long for its end. Raises CommandError if there is none.

    `with_text` reads what was said, too; the audit has the event of that read first.
    """
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
    said = None
    if with_text:
        await operator.audit(AuditKind.TEXT_READ, f"turn {turn_id}", tenant_id=tenant_id, counts={"turns": 1})
        said = await read_messages(database, tenant_id, turn_id)
    return ShownTurn(
        record,
        await read_attempts(database, tenant_id, turn_id),
        said,
        await read_clock(database),
    )


def print_shown(shown: ShownTurn, *, as_json: bool) -> None:
    """Prints a turn and its attempts, and what was said if it was read."""
    document = {**turn_document(shown.turn), **asdict(measure_turn(shown.turn, shown.at))}
    if as_json:
        said = {} if shown.said is None else {"messages": shown.said}
        print_json({"turn": document, "attempts": [attempt_document(one) for one in shown.attempts], **said})
        return
    print_fields({**document, "timeout_seconds": shown.turn.timeout_seconds or f"{OF_HANDLER}, or the queue's"})
    print_attempts(shown.turn, shown.attempts, shown.at)
    for message in shown.said or ():
        kind = "" if message.kind == "message" else f" ({message.kind})"
        content = message.content
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        print_text(f"\n{message.role}{kind}: {text}")
