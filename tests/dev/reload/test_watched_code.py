"""Which folder `turnstile dev` watches for a handler, and which changes in it count."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from itertools import count
from pathlib import Path

import pytest

from turnstile.dev.reload.watched_code import find_code, watch

SECONDS = 30.0


@pytest.fixture(autouse=True)
def _path() -> Iterator[None]:
    before = sys.path[:]
    yield
    sys.path[:] = before


@pytest.mark.parametrize("handler", ["my_agent:respond", "my_package.answers:respond", "not_written_yet:respond"])
def test_code_in_the_working_folder_is_watched_as_a_whole(tmp_path: Path, handler: str) -> None:
    (tmp_path / "my_agent.py").touch()
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").touch()

    assert find_code(handler, tmp_path) == tmp_path


def test_code_elsewhere_is_watched_where_it_is(tmp_path: Path) -> None:
    elsewhere, here = tmp_path / "src", tmp_path / "here"
    (elsewhere / "my_other_package").mkdir(parents=True)
    (elsewhere / "my_other_package" / "__init__.py").touch()
    here.mkdir()
    sys.path.insert(0, str(elsewhere))

    assert find_code("my_other_package.answers:respond", here) == elsewhere / "my_other_package"


@pytest.mark.parametrize("handler", ["turnstile.examples.eliza:respond", "pytest:main"])
def test_installed_code_is_not_watched(tmp_path: Path, handler: str) -> None:
    assert find_code(handler, tmp_path) is None


async def next_change(changes: AsyncIterator[frozenset[Path]], make: Callable[[], object]) -> frozenset[Path]:
    """Makes changes until the watch reports one: it begins some time after the call."""
    looking = asyncio.ensure_future(anext(changes))
    while not looking.done():
        make()
        await asyncio.wait({looking}, timeout=0.2)
    return await looking


async def test_a_change_of_code_counts_and_nothing_that_programs_write(tmp_path: Path) -> None:
    for name in (".venv", "env", "__pycache__", "node_modules", "prompts"):
        (tmp_path / name).mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    # The last one is code.
    names = (".venv/a.py", "env/b.py", "__pycache__/c.py", "node_modules/d.py", "e.db", "f.json", "prompts/system.md")
    async with aclosing(watch(tmp_path)) as changes, asyncio.timeout(SECONDS):
        changed = await next_change(changes, lambda: [(tmp_path / name).write_text(name) for name in names])

    assert changed == {tmp_path / "prompts" / "system.md"}


async def test_files_of_a_new_folder_count(tmp_path: Path) -> None:
    numbers = count()
    async with aclosing(watch(tmp_path)) as changes, asyncio.timeout(SECONDS):
        made = await next_change(changes, lambda: (tmp_path / f"tools{next(numbers)}").mkdir())
        file = max(made) / "search.py"
        while file not in await next_change(changes, lambda: file.write_text("")):
            pass
