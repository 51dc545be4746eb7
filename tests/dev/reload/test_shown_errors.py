"""A handler of `turnstile dev` behaves as the user's own, and what it raises is shown with its text and its line."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from turnstile.dev.reload.shown_errors import show_errors
from turnstile.handlers.handler import Handler, handler

HERE = Path(__file__).parent
TURN = SimpleNamespace(id="t-1", session_id="alice")


@handler(timeout=7, retry_on=LookupError)
async def answers(turn: Any, ctx: Any) -> str:
    raise LookupError("no such customer: 17")


@handler
def blocks(turn: Any, ctx: Any) -> str:
    raise LookupError("no such customer: 17")


@handler
async def generates(turn: Any, ctx: Any) -> AsyncIterator[str]:
    yield "so far "
    raise LookupError("no such customer: 17")


async def run(shown: Handler) -> list[str]:
    if shown.is_generator:
        return [piece async for piece in shown(TURN, None)]
    answer = shown(TURN, None)
    return [await answer if shown.is_async else answer]


@pytest.mark.parametrize("own", [answers, blocks, generates])
async def test_what_a_handler_raises_is_shown_and_raised_on(own: Handler, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LookupError):
        await run(show_errors(own, HERE))

    shown = capsys.readouterr().err
    assert "session alice, turn t-1" in shown
    assert "LookupError: no such customer: 17" in shown
    assert 'File "test_shown_errors.py"' in shown
    assert "shown_errors.py" not in shown.replace("test_shown_errors.py", "")


@pytest.mark.parametrize("own", [answers, blocks, generates])
def test_the_handler_keeps_its_kind_and_its_options(own: Handler) -> None:
    shown = show_errors(own, HERE)

    assert (shown.is_async, shown.is_generator) == (own.is_async, own.is_generator)
    assert (shown.timeout, shown.retry_on) == (own.timeout, own.retry_on)


async def test_what_a_compensation_raises_is_shown_too(capsys: pytest.CaptureFixture[str]) -> None:
    compensated = handler(on_failed=answers)(blocks.function)
    compensation = show_errors(compensated, HERE).on_failed
    assert compensation is not None

    with pytest.raises(LookupError):
        await run(compensation)

    assert "no such customer: 17" in capsys.readouterr().err
