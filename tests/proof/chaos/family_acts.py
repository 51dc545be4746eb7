"""Turns that start others, that do something once, or that compensate another: what their order says, and how they do it.

An order names everything that shall happen. What fails for good heals with the generation, its own or that of its
parent. Otherwise the redrives of a run would in the end work on nothing else.
"""

import asyncio
import random
import secrets
from collections.abc import Callable
from typing import Any

from turnstile import ChildFailedError, Context, Retry, Turn

ACTS = frozenset({"family", "once", "frail"})

Note = Callable[[str, str, Any], None]
"""Leaves a line of evidence: what (`did`, `got`), under which key, and the value."""

_CHILDREN = {"echo": 40, "sleep": 30, "flaky": 8, "frail": 8, "family": 6, "once": 8}


def make_order(rng: random.Random, sleep_seconds: tuple[float, float]) -> dict[str, Any]:
    return _family(rng, sleep_seconds) if rng.random() < 0.6 else _once(rng, sleep_seconds)


def calmed(order: dict[str, Any]) -> dict[str, Any]:
    """The same without anything that charges an attempt."""
    if order["do"] != "family":
        return {**order, "then": None}
    return {**order, "children": [{"do": "echo", "shared": child["shared"]} for child in order["children"]]}


def _family(rng: random.Random, sleep_seconds: tuple[float, float], *, nested: bool = False) -> dict[str, Any]:
    return {
        "do": "family",
        "policy": rng.choice(("all", "all", "any")),
        "caught": rng.random() < 0.7,
        # Without keys, calls are known by their number.
        "keyed": rng.random() < 0.7,
        # For those children that have none of their own.
        "session": f"kin-{rng.getrandbits(40):010x}",
        "children": [
            {**_child(rng, sleep_seconds, nested=nested), "shared": rng.random() < 0.3}
            for _ in range(rng.randint(1, 2 if nested else 4))
        ],
    }


def _child(rng: random.Random, sleep_seconds: tuple[float, float], *, nested: bool) -> dict[str, Any]:
    [what] = rng.choices(list(_CHILDREN), list(_CHILDREN.values()))
    match what:
        case "family" if not nested:
            return _family(rng, sleep_seconds, nested=True)
        case "once":
            return _once(rng, sleep_seconds)
        case "sleep":
            return {"do": "sleep", "seconds": round(rng.uniform(*sleep_seconds), 3)}
        case "flaky":
            return {"do": "flaky", "times": 1, "after": 0.1}
        case "frail":
            return {"do": "frail"}
        case _:
            return {"do": "echo", "say": f"{rng.getrandbits(32):08x}"}


def _once(rng: random.Random, sleep_seconds: tuple[float, float]) -> dict[str, Any]:
    pause = round(rng.uniform(*sleep_seconds), 3)
    return {"do": "once", "keys": rng.randint(1, 3), "pause": pause, "then": rng.choice((None, None, "retry", "fail"))}


async def act(order: dict[str, Any], turn: Turn, ctx: Context, note: Note) -> dict[str, Any]:
    """Does what the order says; what it returns goes into the reply, for the checker to compare with the tables."""
    match order["do"]:
        case "family":
            return {"family": await _join_family(order, turn, ctx)}
        case "once":
            return {"once": await _do_once(order, turn, ctx, note)}
        case "frail":
            _fail_unless_healed(order, turn)
            return {}
        case other:
            raise AssertionError(other)


async def _join_family(order: dict[str, Any], turn: Turn, ctx: Context) -> dict[str, Any]:
    numbered = list(enumerate(order["children"]))
    if order["keyed"] and ctx.fence % 2:
        # With keys, the order of the calls may be another in every run.
        numbered.reverse()
    children = {}
    for number, child in numbered:
        children[number] = await ctx.submit(
            {**child, "heals": _heals(order, turn)},
            session=order["session"] if child["shared"] else None,
            key=f"child-{number}" if order["keyed"] else None,
        )
    joined = [children[number] for number in sorted(children)]
    joined_as = {"policy": order["policy"], "children": [str(child.id) for child in joined]}
    try:
        return {**joined_as, "outputs": await ctx.join(joined, order["policy"])}
    except ChildFailedError as error:
        if not order["caught"]:
            raise
        lost = {"id": str(error.child.id), "status": error.status, "error_class": error.error_class}
        return {**joined_as, "lost": lost}


async def _do_once(order: dict[str, Any], turn: Turn, ctx: Context, note: Note) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for number in range(order["keys"]):
        key = f"effect-{number}"

        # Between the deed and its record there is time for a fault.
        pause = 0.0 if given else order["pause"]

        async def effect(key: str = key, pause: float = pause) -> str:
            value = f"{ctx.fence}/{secrets.token_hex(4)}"
            note("did", key, value)
            await asyncio.sleep(pause)
            return value

        given[key] = await ctx.once(key, effect)
        note("got", key, given[key])
    match order["then"]:
        case "retry" if ctx.attempt == 1:
            raise Retry(after=0.1)
        case "fail":
            _fail_unless_healed(order, turn)
    return given


def _heals(order: dict[str, Any], turn: Turn) -> bool:
    return turn.generation > 1 or order.get("heals", False)


def _fail_unless_healed(order: dict[str, Any], turn: Turn) -> None:
    if not _heals(order, turn):
        raise ValueError("not worth a retry before it is redriven")


async def undo(turn: Turn, ctx: Context) -> dict[str, Any]:
    """A compensation: says what it was given. Its id decides whether it fails at first, or until it is redriven."""
    match turn.id.int % 16:
        case 0 if turn.generation == 1:
            raise ValueError("this can't be undone")
        case 1 | 2 | 3 if ctx.attempt == 1:
            raise Retry(after=0.1)
    return {"undid": turn.inputs[0]}
