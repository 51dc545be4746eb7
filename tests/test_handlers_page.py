"""The examples of docs/handlers.md run as they are printed, and clients.md names every field of a submit."""

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.conftest import ROOT
from turnstile import Handler, Reject, Retry, Snooze
from turnstile.submission.turn_request import TurnRequest
from turnstile.worker.attempt.once import MAX_ALL_CHARACTERS, MAX_KEY_CHARACTERS, MAX_VALUE_CHARACTERS
from turnstile.worker.lifecycle.handler_loading import load

PAGE = (ROOT / "docs" / "handlers.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

Load = Callable[[str], Handler]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """The handler of the one example that has these words."""

    def load_example(having: str) -> Handler:
        [code] = [code for code in EXAMPLES if having in code]
        name = f"example_{abs(hash(having))}"
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, name, raising=False)
        return load(f"{name}:respond")

    return load_example


class Context:
    """What the examples use of a context."""

    idempotency_key = "key-1"

    def __init__(self, *said: str) -> None:
        self._said = said
        self.emitted: list[Any] = []
        self.values: dict[str, Any] = {}

    async def history(self, limit: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(role="user", content=one) for one in self._said[-limit:]]

    async def emit(self, event: Any) -> None:
        self.emitted.append(event)

    async def once(self, key: str, fn: Callable[[], Any]) -> Any:
        self.values[key] = await fn()
        return self.values[key]


def turn(given: Any) -> SimpleNamespace:
    return SimpleNamespace(input=given, tenant_id="acme")


@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_uses_no_name_that_it_does_not_define(code: str) -> None:
    program = Path(sys.executable).with_name("ruff")
    checked = subprocess.run(
        [program, "check", "--isolated", "--select", "E9,F", "-"],
        input=code,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout


async def test_the_first_example_charges_streams_and_pays_back(example: Load) -> None:
    respond, ctx = example("on_failed=undo"), Context("good morning")

    reply = await respond(turn("good morning"), ctx)

    assert reply == "".join(ctx.emitted) == "You said: good morning "
    assert ctx.values == {"charge": "charge key-1 of acme"}
    assert respond.on_failed is not None
    await respond.on_failed(turn({"values": ctx.values}), ctx)


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SimpleNamespace]:
    """A server that speaks OpenAI's API: it answers with `status`, and breaks off after the first piece if `cut`."""
    behaves = SimpleNamespace(status=200, cut=False, asked=[])

    async def complete(request: web.Request) -> web.StreamResponse:
        behaves.asked.append(await request.json())
        response = web.StreamResponse(status=behaves.status, headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in ("Hel", "lo"):
            data = json.dumps({"choices": [{"delta": {"content": piece}}]})
            await response.write(f"data: {data}\n\n".encode())
            if behaves.cut:
                assert request.transport is not None
                request.transport.close()
                return response
        await response.write(b'data: {"choices": [{"delta": {}}]}\n\ndata: [DONE]\n\n')
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    async with TestServer(app) as server:
        monkeypatch.setenv("MODEL_URL", str(server.make_url("/v1")))
        yield behaves


async def test_the_example_of_a_model_streams_its_answer(example: Load, provider: SimpleNamespace) -> None:
    ctx = Context("good morning")

    assert await example("/chat/completions")(turn("good morning"), ctx) == "Hello"
    assert ctx.emitted == ["Hel", "lo"]
    [asked] = provider.asked
    assert asked["messages"] == [{"role": "user", "content": "good morning"}]


@pytest.mark.parametrize(("status", "instruction"), [(429, Snooze), (503, Retry), (400, Reject)])
async def test_the_example_of_a_model_says_what_becomes_of_a_refusal(
    status: int, instruction: type[Exception], example: Load, provider: SimpleNamespace
) -> None:
    provider.status = status

    with pytest.raises(instruction):
        await example("/chat/completions")(turn("x"), Context("x"))


async def test_the_example_of_a_model_is_tried_again_when_its_answer_breaks_off(
    example: Load, provider: SimpleNamespace
) -> None:
    respond, provider.cut = example("/chat/completions"), True

    with pytest.raises(httpx.HTTPError) as broken:
        await respond(turn("x"), Context("x"))

    assert isinstance(broken.value, respond.retry_on)


async def test_the_example_of_a_program_waits_for_it(example: Load) -> None:
    assert await example("create_subprocess_exec")(turn("b\na\n"), Context()) == "a\nb\n"


async def test_the_example_of_children_answers_for_each_page(example: Load) -> None:
    class Parent(Context):
        async def submit(self, given: Any, key: str) -> Any:
            return given

        async def join(self, children: list[Any]) -> list[Any]:
            return [await respond(turn(child), self) for child in children]

    respond = example("ChildFailedError")

    assert await respond(turn({"pages": [1, 2]}), Parent()) == "page 1 in short; page 2 in short"


def test_the_page_states_the_limits_of_once() -> None:
    stated = re.search(r"A result has ([\d,]+) characters.*?have ([\d,]+), a key has ([\d,]+)\.", PAGE)

    assert stated
    limits = (MAX_VALUE_CHARACTERS, MAX_ALL_CHARACTERS, MAX_KEY_CHARACTERS)
    assert [int(number.replace(",", "")) for number in stated.groups()] == [*limits]


def test_the_page_for_clients_names_every_field_of_a_submit() -> None:
    page = (ROOT / "docs" / "clients.md").read_text()

    assert [name for name in TurnRequest.model_fields if not re.search(rf"^\|[^|]*`{name}`", page, re.MULTILINE)] == []
