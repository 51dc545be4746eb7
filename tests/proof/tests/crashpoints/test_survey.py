"""The survey wraps every await, and what is awaited begins only when the point has been passed."""

from collections.abc import Awaitable, Callable
from typing import Any

from tests.proof.crashpoints.survey import MODULES, find_source, wrap

NESTED = """
async def read(x):
    found = await (await x.execute("SELECT")).fetch(await x.size())
    return found
"""


class Database:
    """Notes what is done with it."""

    def __init__(self, done: list[str]) -> None:
        self.done = done

    async def execute(self, _: str) -> "Database":
        self.done.append("execute")
        return self

    async def size(self) -> int:
        self.done.append("size")
        return 7

    async def fetch(self, size: int) -> int:
        self.done.append("fetch")
        return size


async def test_awaits_within_an_await_are_points_of_their_own() -> None:
    done: list[str] = []

    async def passing(name: str, make: Callable[[], Awaitable[Any]]) -> Any:
        done.append(name)
        return await make()

    tree, names = wrap(NESTED, "m")
    space: dict[str, Any] = {"__crashpoints_await__": passing}
    exec(compile(tree, "m", "exec"), space)  # noqa: S102

    assert await space["read"](Database(done)) == 7
    assert done == ["m.read: execute", "execute", "m.read: size", "size", "m.read: fetch", "fetch"]
    assert sorted(names) == sorted(one for one in done if ":" in one)


def test_every_surveyed_module_can_be_compiled() -> None:
    for module in MODULES:
        tree, _ = wrap(find_source(module).read_text("utf-8"), module)
        compile(tree, module, "exec", dont_inherit=True)
