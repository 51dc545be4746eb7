"""Each script of the working memory on a session of which Redis has nothing: never opened, expired, evicted or flushed."""

import pytest

from tests.memory.session_memory import Room
from turnstile.memory import session_scripts

ARGUMENTS: dict[str, tuple[str | int, ...]] = {
    "READ": ("item:a",),
    "FIND": (20, 0),
    "WRITE": (1, 100, 0, 60_000, "item:a", "", 60_000, "5 \x1fkind:item\x1fcontext:letter\x1f", "1"),
    "DELETE": (1, "item:a", ""),
    "FOLLOW": (60_000, "letter", "created", "fact:a", 1),
    "OPEN_CONTEXT": (1, "letter", 60_000),
    "END_CONTEXT": (1, "letter"),
    "LIST_CONTEXTS": (),
}
"""What follows the channel."""

SCRIPTS = [name for name in vars(session_scripts) if name.isupper() and not name.startswith("_")]


@pytest.mark.parametrize("name", SCRIPTS)
async def test_what_a_script_writes_for_an_empty_session_expires(room: Room, name: str) -> None:
    session = room.cache.session("t", "s", 1)

    await room.keys.eval(getattr(session_scripts, name), 4, *room.names, session.channel, *ARGUMENTS[name])

    times = {key: await room.keys.ttl(key) for key in room.names if await room.keys.exists(key)}
    assert all(left > 0 for left in times.values()), times
