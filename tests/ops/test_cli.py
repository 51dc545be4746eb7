"""What the command line imports: little, so that it starts quickly, and nothing of the developer's machine."""

import json
import resource
import subprocess
import sys

from tests.support.command_line import turnstile

HEAVY = ("aiohttp", "alembic", "asyncio", "boto3", "fastapi", "producer", "psycopg", "pydantic", "rich", "worker")


def test_help_is_quick() -> None:
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        turnstile("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    # Of the processor's time, which other tests beside this one hardly touch: 0.2 s, and 1.4 with the API's imports.
    assert min(seconds) < 0.8


def test_the_command_line_itself_imports_nothing_heavy() -> None:
    code = f"import sys, json, turnstile.ops.cli; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=180)

    assert json.loads(result.stdout) == []


def test_without_the_tools_of_the_developers_machine_the_other_commands_are_there() -> None:
    code = (
        "import importlib.util as u, sys; found = u.find_spec; "
        "u.find_spec = lambda name, *rest: None if name == 'turnstile.ops.dev' else found(name, *rest); "
        "import turnstile.ops.cli as cli; print('turnstile.ops.dev' in sys.modules); cli.app(['--help'])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=180)

    first, _, shown = result.stdout.partition("\n")
    assert first == "False"
    assert " worker " in shown
    assert " demo " not in shown


def test_a_worker_does_not_carry_the_api() -> None:
    imports = "import sys, turnstile.ops.cli, turnstile.worker.app"
    code = f"{imports}; print([m for m in ('fastapi', 'uvicorn', 'turnstile.producer') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=180)

    assert result.stdout.strip() == "[]"
