"""Calls of the context on an event loop of the handler's own, in a thread: each is refused, and the worker goes on."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.support.claims import submit_turns
from tests.support.processors import ECHO, message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.context import Context, Turn
from turnstile.handlers.handler import Handler
from turnstile.memory.interface import Memory
from turnstile.memory.item import Write
from turnstile.worker.session_lock import SessionLock

Call = Callable[[Context], Coroutine[Any, Any, Any]]


async def hear_changes(ctx: Context) -> None:
    async with ctx.memory.changes():
        pass


CALLS: dict[str, Call] = {
    "ctx.history": lambda ctx: ctx.history(),
    "ctx.once": lambda ctx: ctx.once("k", lambda: 1),
    "ctx.submit": lambda ctx: ctx.submit("do this"),
    "ctx.join": lambda ctx: ctx.join([]),
    "ctx.memory.get": lambda ctx: ctx.memory.get("k"),
    "ctx.memory.get_many": lambda ctx: ctx.memory.get_many(["k"]),
    "ctx.memory.set": lambda ctx: ctx.memory.set("k", 1),
    "ctx.memory.set_many": lambda ctx: ctx.memory.set_many([Write(key="k", value=1)]),
    "ctx.memory.delete": lambda ctx: ctx.memory.delete("k"),
    "ctx.memory.find": lambda ctx: ctx.memory.find(),
    "ctx.memory.invalidate": lambda ctx: ctx.memory.invalidate(context="c"),
    "ctx.memory.open_context": lambda ctx: ctx.memory.open_context("c"),
    "ctx.memory.end_context": lambda ctx: ctx.memory.end_context("c"),
    "ctx.memory.contexts": lambda ctx: ctx.memory.contexts(),
    "ctx.memory.changes": hear_changes,
}


def names_of_what_waits(prefix: str, protocol: type) -> set[str]:
    """The methods that a handler awaits, or enters with `async with`."""
    return {
        f"{prefix}.{name}"
        for name, method in inspect.getmembers(protocol, inspect.isfunction)
        if inspect.iscoroutinefunction(method) or "AsyncContextManager" in str(method.__annotations__.get("return"))
    }


def test_every_call_that_waits_is_tried_here() -> None:
    assert set(CALLS) == names_of_what_waits("ctx", Context) | names_of_what_waits("ctx.memory", Memory)


async def end_of_turn(
    settings: Settings, database: Database, lock: SessionLock, session: str, handler: Handler
) -> tuple[str, str]:
    """Its status, and its reply or error."""
    [turn_id] = await submit_turns(database, settings, "hi", session_id=session)
    with processing(settings, database, lock, "w", handler) as processor:
        async with asyncio.timeout(20):
            await processor.process(message_about(turn_id, session))
    [row] = await database.fetch(
        "SELECT t.status, coalesce(m.content #>> '{}', t.error) AS said FROM turns t"
        " LEFT JOIN messages m ON m.turn_id = t.id AND m.role = 'assistant' WHERE t.id = %(id)s",
        {"id": turn_id},
    )
    return row["status"], row["said"]


def ask_in_thread(turn: Turn, ctx: Context) -> None:
    asyncio.run(ctx.history())


async def ask_outside_the_loop(turn: Turn, ctx: Context) -> None:
    await asyncio.to_thread(ask_in_thread, turn, ctx)


@pytest.mark.parametrize("function", [ask_in_thread, ask_outside_the_loop])
async def test_a_call_on_an_event_loop_of_a_thread_fails_its_turn_and_no_other(
    settings: Settings, database: Database, lock: SessionLock, function: Any
) -> None:
    status, error = await end_of_turn(settings, database, lock, "s", Handler(function))

    assert status == "FAILED"
    assert error == (
        "ctx.history runs on the worker's event loop only, and this is another one: "
        "in a thread, use ctx.wait_for instead of asyncio.run"
    )
    assert await end_of_turn(settings, database, lock, "other", ECHO) == ("SUCCEEDED", "hi")


async def test_each_call_is_refused_there(settings: Settings, database: Database, lock: SessionLock) -> None:
    refusals: dict[str, str] = {}

    def ask_all(turn: Turn, ctx: Context) -> None:
        for name, call in CALLS.items():
            with pytest.raises(RuntimeError) as refused:
                asyncio.run(call(ctx))
            refusals[name] = str(refused.value)

    status, error = await end_of_turn(settings, database, lock, "s", Handler(ask_all))

    assert (status, error) == ("SUCCEEDED", None)
    assert all(text.startswith(f"{name} runs on the worker's event loop only") for name, text in refusals.items())
    assert set(refusals) == set(CALLS)


async def test_pieces_are_emitted_from_any_loop(settings: Settings, database: Database, lock: SessionLock) -> None:
    async def speak(ctx: Context) -> str:
        await ctx.emit("piece")
        return "whole"

    def in_thread(turn: Turn, ctx: Context) -> str:
        return asyncio.run(speak(ctx))

    assert await end_of_turn(settings, database, lock, "s", Handler(in_thread)) == ("SUCCEEDED", "whole")
