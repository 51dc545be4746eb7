"""Handlers: their options, the input of a turn, and how a worker finds the handler."""

import math
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from turnstile.errors import SettingsError
from turnstile.handlers.context import Turn
from turnstile.handlers.handler import Handler, handler
from turnstile.turn.limits import MAX_SECONDS
from turnstile.worker.lifecycle.handler_loading import load

MODULE = """
from turnstile import handler

@handler(timeout=9, max_attempts=2, retry_on=(KeyError,))
async def with_options(turn, ctx): ...

def plain(turn, ctx): ...

constant = 7
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of handlers in the working directory."""
    name = f"handlers_of_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / f"{name}_broken.py").write_text("import a_module_that_is_not_installed\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return name


def test_a_handler_is_found_from_the_working_directory_with_its_options(module: str) -> None:
    found = load(f"{module}:with_options")

    assert (found.timeout, found.max_attempts, found.retry_on, found.is_async) == (9, 2, (KeyError,), True)


def test_a_plain_function_needs_no_decorator(module: str) -> None:
    found = load(f"{module}:plain")

    assert (found.timeout, found.max_attempts, found.retry_on, found.is_async) == (None, None, (), False)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("module", r"expected module:function, got 'module'$"),
        (":function", r"expected module:function, got ':function'$"),
        (None, r"is not set; name a module:function$"),
        ("", r"is not set; name a module:function$"),
        (".here:f", r"\.here:f: TypeError"),
        ("chat/agent.py:respond", r"chat/agent\.py is a file; name its module: chat\.agent:respond$"),
    ],
)
def test_a_name_that_is_not_module_and_function_is_refused(name: str | None, reason: str) -> None:
    with pytest.raises(SettingsError, match=f"^TURNSTILE_HANDLER: {reason}"):
        load(name)


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [
        (":missing", "has no attribute 'missing'"),
        (":constant", "is not a function"),
        ("_not_there:plain", r"No module named '\w+_not_there'; looked for in /.*, too$"),
        ("_broken:plain", "No module named 'a_module_that_is_not_installed'"),
    ],
)
def test_a_handler_that_can_not_be_loaded_is_refused_with_the_reason(module: str, attribute: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason) as refused:
        load(f"{module}{attribute}")

    assert str(refused.value).startswith(f"TURNSTILE_HANDLER: {module}")


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0}, {"timeout": math.nan}, {"timeout": MAX_SECONDS + 1}, {"max_attempts": 0}, {"max_attempts": 101},
        {"max_attempts": 2.0}, {"max_attempts": True}, {"retry_on": ("ValueError",)}, {"retry_on": int},
    ],
)  # fmt: skip
def test_invalid_options_are_refused_by_the_decorator(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        handler(**options)


def test_the_widest_options_are_accepted() -> None:
    made = handler(timeout=MAX_SECONDS, retry_on=KeyError)(str.join)

    assert (made.timeout, made.retry_on) == (MAX_SECONDS, (KeyError,))


@pytest.mark.parametrize(
    ("inputs", "seen"),
    [
        (("hi",), "hi"),
        (({"text": "hi"},), {"text": "hi"}),
        (("one", "two"), "one\ntwo"),
        (("one", {"text": "two"}), ["one", {"text": "two"}]),
    ],
)
def test_the_input_is_one_value_or_the_joined_texts_or_a_list(inputs: tuple[Any, ...], seen: Any) -> None:
    turn = Turn(
        id=UUID(int=1), tenant_id="t", session_id="s", seq=1, queue="q", inputs=inputs, metadata={},
        created_at=datetime(2026, 1, 1, tzinfo=UTC), trace_id="1" * 32, traceparent="",
    )  # fmt: skip

    assert turn.input == seen


# --- what a handler may be


def refusal(code: str, named: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the loading of `named` says of a module with this code."""
    module = f"refused_{abs(hash((code, named)))}"
    (folder / f"{module}.py").write_text(f"import functools\nfrom turnstile import handler\n\n{code}")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    with pytest.raises(SettingsError) as refused:
        load(f"{module}:{named}")
    text = str(refused.value)
    assert text.startswith(f"TURNSTILE_HANDLER: {module}:{named}: ")
    assert "\n" not in text
    return text.removeprefix(f"TURNSTILE_HANDLER: {module}:{named}: ").replace(str(folder / module), "FILE")


def test_a_handler_without_options_needs_no_parentheses() -> None:
    async def respond(turn: Any, ctx: Any) -> str:
        return "yes"

    bare, called = handler(respond), handler()(respond)

    assert isinstance(bare, Handler)
    assert bare == called
    assert bare.is_async


MISMATCH = "and a handler is called with (turn, ctx)"


@pytest.mark.parametrize(
    ("code", "named", "said"),
    [
        ("async def one(turn): ...", "one", f"one takes (turn), {MISMATCH} (FILE.py, line 4)"),
        ("\n\n@handler\nasync def one(turn): ...", "one", f"one takes (turn), {MISMATCH} (FILE.py, line 6)"),
        (
            "def named(turn, ctx, *, model): ...",
            "named",
            f"named takes (turn, ctx, *, model), {MISMATCH} (FILE.py, line 4)",
        ),
        (
            "def undo(turn): ...\n@handler(on_failed=undo)\ndef fine(turn, ctx): ...",
            "fine",
            f"undo takes (turn), {MISMATCH} (FILE.py, line 4)",
        ),
        (
            "class Bot:\n    def say(self, turn): ...\nsay = Bot().say",
            "say",
            f"Bot.say takes (turn), {MISMATCH} (FILE.py, line 5)",
        ),
        (
            "def pieces(turn, ctx):\n    yield 'a'",
            "pieces",
            "pieces is a generator: write `async def`, which may yield (FILE.py, line 4)",
        ),
        ("constant = 7", "constant", "int is not a function (turn, ctx)"),
        ("waiting = handler(timeout=3)", "waiting", f"handler.<locals>.decorate takes (function), {MISMATCH}"),
    ],
)
def test_a_function_with_other_parameters_is_refused_with_its_file_and_line(
    code: str, named: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refusal(code, named, tmp_path, monkeypatch).startswith(said)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("@handler(timeout=0)\ndef other(turn, ctx): ...", "ValueError: timeout must be more than 0"),
        ("@handler(120)\ndef other(turn, ctx): ...", "int is not a function (turn, ctx); options have names"),
        ("raise RuntimeError('two\\nlines')", "RuntimeError: two"),
        ("import sys; sys.exit('at import')", "SystemExit: at import"),
        ("def f(:", "SyntaxError: "),
    ],
)
def test_a_fault_elsewhere_in_the_module_is_refused_with_its_line(
    code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = refusal(f"def fine(turn, ctx): ...\n\n{code}", "fine", tmp_path, monkeypatch)

    assert refused.startswith(said)
    assert refused.endswith(".py, line 6)")


def test_a_fault_in_an_imported_module_is_refused_with_that_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model_of_the_bot.py").write_text("import json\n\nPRICES = json.loads('{')\n")

    refused = refusal("import model_of_the_bot", "respond", tmp_path, monkeypatch)

    assert refused.endswith(f"({tmp_path / 'model_of_the_bot.py'}, line 3)")


@pytest.mark.parametrize(
    "code",
    [
        "def wanted(*said): ...",
        "wanted = functools.partial(lambda model, turn, ctx: None, 'small')",
        "@functools.wraps(lambda turn, ctx, model: None)\ndef wanted(turn, ctx): ...",
        "class Bot:\n    def __call__(self, turn, ctx): ...\nwanted = Bot()",
        "wanted = max",
    ],
)
def test_everything_that_accepts_two_arguments_is_a_handler(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"taken_{abs(hash(code))}"
    (tmp_path / f"{module}.py").write_text(f"import functools\n{code}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    assert not load(f"{module}:wanted").is_async
