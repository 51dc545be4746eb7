"""`turnstile erase`: asks, erases a session or a tenant, and looks whether anything is left."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

import typer

from turnstile.backends.redis.operator_client import operator_client
from turnstile.erasure.eraser import Eraser
from turnstile.erasure.keys import SessionKeysInRedis
from turnstile.erasure.remains import count_keys_left, count_rows_left
from turnstile.erasure.request import Erasure, read_erasure, request_erasure
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, Yes, confirm
from turnstile.ops.terminal.output import Progress, plural, print_json, print_text, say
from turnstile.process.redis_clients import connect_memory

LOOK_SECONDS = 0.5
"""Between two looks at an erasure that waits for a turn to end, or that a relay works on."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the command found or did."""

    turns: int | None
    """Turns that were deleted; None: it only looked."""
    left: dict[str, int]
    """What is left, by place."""


def erase(
    tenant: Annotated[str, typer.Option("--tenant", show_default=False, help="The tenant.")],
    session: Annotated[
        str | None,
        typer.Option("--session", show_default=False, help="The session; left out: all sessions of the tenant."),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Only look whether anything is left.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Erase all that a session, or a tenant, has said and was told: rows, archive, memory, Redis.

    Turns that wait are cancelled, and turns that run are asked to stop. A turn that is submitted meanwhile waits, and
    begins a clean session. You can stop the command at any point: the relays go on with the erasure. At the end it looks
    whether anything is left; then the exit code is 1.

    --json: tenant, session, turns (that were deleted; null with --verify), left (by place; empty: nothing is left).
    """
    settings = load_settings()
    what = f"tenant {tenant}" if session is None else f"session {session} of tenant {tenant}"
    if not verify:
        whole = "all sessions of " if session is None else ""
        confirm(f"Erase {whole}{what}? This cannot be undone.", yes=yes)
    outcome = operate(settings, _look if verify else _erase, tenant, session)
    if as_json:
        print_json({"tenant": tenant, "session": session, "turns": outcome.turns, "left": outcome.left})
    else:
        done = "" if outcome.turns is None else f"{plural(outcome.turns, 'turn')} erased; "
        left = ", ".join(f"{many} in {place}" for place, many in outcome.left.items())
        print_text(f"{what}: {done}{'left: ' + left if left else 'nothing is left'}")
    if outcome.left:
        raise typer.Exit(ExitCode.FAILED)


async def _look(operator: Operator, tenant_id: str, session_id: str | None) -> Outcome:
    return Outcome(None, await _find_left(operator, tenant_id, session_id))


async def _erase(operator: Operator, tenant_id: str, session_id: str | None) -> Outcome:
    requested = await request_erasure(operator.database, tenant_id, session_id, operator.name)
    if requested is None:
        raise CommandError("no such session of this tenant", ExitCode.NOT_FOUND)
    erasure, canceled = requested
    await operator.hints.publish(canceled.asked)
    if session_id is not None:
        await operator.hints.tell_watchers(tenant_id, session_id, canceled.canceled)
    try:
        erasure = await _go_on(operator, erasure)
    except BaseException:
        say("broken off: the relays go on with the erasure")
        raise
    return Outcome(erasure.turns, await _find_left(operator, tenant_id, session_id))


async def _go_on(operator: Operator, erasure: Erasure) -> Erasure:
    progress = Progress()
    redis = connect_memory(operator.settings)
    eraser = Eraser(operator.database, SessionKeysInRedis(redis, operator.settings.redis_prefix))
    try:
        while erasure.finished_at is None:
            if not await eraser.step(erasure.id):
                await asyncio.sleep(LOOK_SECONDS)
            found = await read_erasure(operator.database, erasure.id)
            if found is None:
                # It was a part of its tenant's erasure, which has counted its turns.
                break
            erasure = found
            progress.say(f"{plural(erasure.turns, 'turn')} erased")
    finally:
        await redis.close()
    return erasure


async def _find_left(operator: Operator, tenant_id: str, session_id: str | None) -> dict[str, int]:
    left = await count_rows_left(operator.database, tenant_id, session_id)
    async with operator_client(operator.settings.memory_redis) as redis:
        keys = await count_keys_left(redis, operator.settings.redis_prefix, tenant_id, session_id)
    return {**left, "redis": keys} if keys else left
