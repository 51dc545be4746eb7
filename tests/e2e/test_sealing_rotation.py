"""Keys of contents are replaced under real processes, one of which is killed meanwhile: all that was said stays readable."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product, WorkerProcess
from tests.ops.invoke import turnstile
from tests.support.probes import until
from tests.support.sealing import key_text
from tests.support.stored_text import columns_with

CANARY = "canary-4711"


def replace_keys(file: Path, *ids: str, seal_with: str) -> dict[str, str]:
    """Writes the file as an operator does: a process that starts meanwhile reads the old one or the new one."""
    new = file.with_suffix(".new")
    new.write_text(key_text(ids, seal_with))
    new.replace(file)
    return {"TURNSTILE_SEALING_KEYS_FILE": str(file)}


def read_logs(folder: Path) -> list[str]:
    return [path.read_text(errors="replace") for path in folder.glob("*.log")]


@asynccontextmanager
async def client_of(api: WorkerProcess) -> AsyncIterator[httpx.AsyncClient]:
    await until(lambda: api.said("api.listening"))
    port = api.said("api.listening")[0]["port"]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        yield client


async def submit(client: httpx.AsyncClient, number: int, **order: Any) -> str:
    order = {"do": "echo", "say": f"{CANARY} {number}", **order}
    answer = await client.post(f"/v1/sessions/s{number % 3}/turns", json={"input": order})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def replies(client: httpx.AsyncClient, turns: list[str]) -> list[Any]:
    answers = [await client.get(f"/v1/turns/{turn}", params={"wait": 30}) for turn in turns]
    assert [answer.status_code for answer in answers] == [200] * len(turns)
    return [answer.json()["output"] for answer in answers]


async def test_keys_are_replaced_while_turns_are_answered(
    product: Product, start_worker: StartWorker, tmp_path: Path
) -> None:
    file = tmp_path / "keys.json"
    given = replace_keys(file, "k1", "k2", seal_with="k1")
    api = start_worker("api", TURNSTILE_API_PORT="0", **given)
    victim = start_worker(**given)
    async with client_of(api) as client:
        turns = [await submit(client, number) for number in range(6)]
        await replies(client, turns)
        turns.append(await submit(client, 6, do="sleep", seconds=1))
        await until(lambda: product.fetch("SELECT 1 FROM turns WHERE status = 'RUNNING'"))

        replace_keys(file, "k1", "k2", seal_with="k2")
        victim.kill()
        start_worker(**given)
        turns += [await submit(client, number) for number in range(7, 12)]
        # The API has not started again: it seals with the old key, and opens both.
        before = await replies(client, turns)
    assert before == [f"{CANARY} {number}" if number != 6 else "slept" for number in range(12)]
    assert await columns_with(product.database, "sealed:1:k1:")
    assert await columns_with(product.database, "sealed:1:k2:")

    api.kill()
    resealed = await asyncio.to_thread(
        turnstile, "reseal", "--yes", "--pause", "0", DATABASE_URL=product.settings.database_url, **given
    )
    assert resealed.returncode == 0, resealed.stderr
    assert await columns_with(product.database, "sealed:1:k1:") == []

    replace_keys(file, "k2", seal_with="k2")
    async with client_of(start_worker("api", TURNSTILE_API_PORT="0", **given)) as client:
        assert await replies(client, turns) == before
    assert [place for place in await columns_with(product.database, CANARY) if not place.startswith("evidence")] == []
    logs = read_logs(tmp_path)
    assert len(logs) == 4
    assert CANARY not in "".join(logs)
    assert os.fspath(file) not in "".join(logs)
