"""What the command line imports: little, so that it starts quickly, and nothing of the developer's machine."""

import json
import subprocess
import sys

from turnstile.ops.command_list import COMMANDS

HEAVY = ("aiohttp", "alembic", "asyncio", "boto3", "fastapi", "psycopg", "pydantic", "rich", "sqlalchemy")
OF_THE_API = ("fastapi", "uvicorn", "turnstile.producer")


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=180).stdout


def test_the_list_of_all_commands_imports_nothing_heavy_and_a_worker_no_api() -> None:
    shows_help = "from turnstile.ops.command_list import app; app(['--help'], standalone_mode=False)"
    worker = "import turnstile.ops.serve_command, turnstile.worker.worker_process"
    out = run(
        f"import sys, json; {shows_help}; print(json.dumps([m for m in {HEAVY} if m in sys.modules]));"
        f"{worker}; print(json.dumps([m for m in {OF_THE_API} if m in sys.modules]))"
    )

    assert " worker " in out
    assert [json.loads(line) for line in out.splitlines()[-2:]] == [[], []]


def test_a_command_about_one_turn_does_not_import_sqlalchemy() -> None:
    """It would take a quarter of the time that the command needs to start."""
    names = ("status", "why", "wake", "trace", "cancel", "retry", "skip")
    modules = {name: f"turnstile.{COMMANDS[name][0].partition(':')[0]}" for name in names}
    # In one process: an import takes nothing out of it.
    out = run(
        f"import importlib, json, sys; print(json.dumps([name for name, module in {modules}.items()"
        " if importlib.import_module(module) and 'sqlalchemy' in sys.modules]))"
    )

    assert json.loads(out) == []


def test_without_the_tools_of_the_developers_machine_the_other_commands_are_there() -> None:
    out = run(
        "import importlib.util as u, sys; found = u.find_spec; "
        "u.find_spec = lambda name, *rest: None if name == 'turnstile.dev' else found(name, *rest); "
        "from turnstile.ops.command_list import app; print('turnstile.dev' in sys.modules); app(['--help'])"
    )

    first, _, shown = out.partition("\n")
    assert first == "False"
    assert " worker " in shown
    assert " demo " not in shown
