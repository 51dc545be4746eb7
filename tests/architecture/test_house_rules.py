"""The house rules that a linter does not know: one home for each thing, files of a size that can be read, no naps."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PRODUCT = ("turnstile",)
PROCESSES = ("worker", "producer", "relay", "ops", "dev", "migrations", "examples")
LINKED = ("worker", "producer", "migrations")
"""What the top level names too, for the eye: nothing is imported by these names."""
MAX_LINES = 350
LISTS = {"turnstile/schema.py"}
"""No behaviour, but a line for each column of each table: it is as long as the tables are."""
MAX_TEST_LINES = 400
VAGUE = {"util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"}

# The table's name after a word of SQL, apart from prose ("from turns that ...") by the capitals that our SQL is written in.
SQL_OF_TURNS = re.compile(r"\b(FROM|JOIN|UPDATE|INTO|TABLE|TRUNCATE)\s+(ONLY\s+)?(\w+\.)?turns\b")

WRITE_OF_TURNS = re.compile(r"\b(UPDATE|INTO|DELETE FROM|TRUNCATE)\s+(ONLY\s+)?(\w+\.)?turns\b")

ONLOOKER = "turnstile/dev/demo"
"""The demo's check looks at the table from outside: with the product's own statements it would confirm their mistakes."""

HOMES_OF_WRITES = ("turnstile/statements/", "turnstile/archive/", "turnstile/retention/", "turnstile/erasure/")
OPERATORS_WRITES = {
    "turnstile/ops/dead_letters/drop_failed.py",
    "turnstile/ops/doctor/read_database.py",
    "turnstile/ops/sessions/halted_session.py",
    "turnstile/ops/sessions/wake_turn.py",
}
"""The statements of commands that change turns. They lock as the library does: sessions before turns, in id order."""

HOMES_OF_THE_ENVIRONMENT = (
    "turnstile/config/settings.py",
    "turnstile/dev/stack/",
    "turnstile/dev/home.py",
    # Programs of the user's project, which know only the client.
    "turnstile/dev/new/template/",
)
HANDS_THE_ENVIRONMENT_ON = {
    "turnstile/dev/dev_command.py": "to its workers",
    "turnstile/dev/start_stack.py": "to the processes that use the stack",
    "turnstile/dev/new/template/": "a project of a user's, where Turnstile is a library",
    "turnstile/dev/reload/worker_start.py": "to the handler, from `turnstile dev`",
    "turnstile/dev/demo/": "to its children, and to its handler the script that it shall play",
    "turnstile/ops/command_list.py": "TURNSTILE_DEBUG, which must work when the settings are refused; and the names alone",
    "turnstile/config/unknown_variables.py": "looks at the names alone",
}

CONNECTS_WITHOUT_A_POOL = {
    "turnstile/backends/postgres/check_server.py": "by `conninfo`, and runs no statement",
    "turnstile/relay/arrivals.py": "by `conninfo`, and listens",
    "turnstile/ops/doctor/idle_timeout.py": "by `conninfo`, with the schema and without the other options",
    "turnstile/ops/roles/grants.py": "by `conninfo`, as the owner of the tables",
    "turnstile/ops/terminal/operator_access.py": "by `conninfo`, and runs no statement",
    "turnstile/migrations/engine.py": "by `conninfo`, and checks the schema itself; once as other programs do, to see theirs",
    "turnstile/dev/stack/postgres.py": "administers the embedded server, and sees no table",
}
"""All others use `Database`, which takes the schema and checks each new connection."""

MAY_SLEEP = {
    "tests/support/probes.py": "the one place that waits",
    "tests/producer/api/test_openapi_at_length.py": "its client, which cancels again and again",
    "tests/e2e/handlers.py": "handlers under test, which are slow on purpose",
    "tests/e2e/forking_handlers.py": "children of handlers, which live until they are ended",
    "tests/proof/chaos/handler.py": "the same",
    "tests/proof/chaos/family_acts.py": "the same",
    "tests/proof/chaos/recovery.py": "its handler, likewise",
    "tests/proof/chaos/memory_acts.py": "the same",
}

Finder = Callable[[ast.AST], list[int]]


def python_files(*folders: str) -> Iterator[tuple[str, Path]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path


def found_in(finder: Finder, *folders: str) -> list[str]:
    """`path:line` of whatever the finder finds."""
    return [
        f"{name}:{line}"
        for name, path in python_files(*folders)
        if HINTS[finder].search(text := path.read_text("utf-8"))
        for line in finder(ast.parse(text))
    ]


def find_sql_of_turns(tree: ast.AST) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL_OF_TURNS.search(node.value)
    ]


def find_writes_of_turns(tree: ast.AST) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and WRITE_OF_TURNS.search(node.value)
    ]


def find_environment(tree: ast.AST) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv"})
        or (isinstance(node, ast.ImportFrom) and {one.name for one in node.names} & {"environ", "environb", "getenv"})
    ]


def find_connects(tree: ast.AST) -> list[int]:
    """Connections to Postgres that no pool has made."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "connect"
        and "psycopg" in {one.id for one in ast.walk(node.func) if isinstance(one, ast.Name)}
    ]


def find_bare_folders(tree: ast.AST) -> list[int]:
    """Imports of a process by its folder's name, which would load a second copy of it (ADR 0031)."""
    return [
        node.lineno
        for node in ast.walk(tree)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [one.name for one in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        if name.partition(".")[0] in PROCESSES
    ]


def imported_modules(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and module of each import. `from a import b` names a.b as well, which may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, one.name) for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{one.name}") for one in node.names)


def find_test_modules(tree: ast.AST) -> list[int]:
    """Imports of test modules, and from them."""
    return [line for line, module in imported_modules(tree) if re.fullmatch(r"tests\.(.*\.)?test_\w+", module)]


def find_naps(tree: ast.AST) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr == "sleep")
        or (isinstance(node, ast.ImportFrom) and "sleep" in {one.name for one in node.names})
    ]


HINTS: dict[Finder, re.Pattern[str]] = {
    find_sql_of_turns: re.compile("turns"),
    find_writes_of_turns: re.compile("turns"),
    find_environment: re.compile("env"),
    find_connects: re.compile("psycopg"),
    find_bare_folders: re.compile(rf"(from|import)\s+({'|'.join(PROCESSES)})"),
    find_test_modules: re.compile("test_"),
    find_naps: re.compile("sleep"),
}
"""What the text of a file has where the finder finds something: to parse them all would take seconds."""


@pytest.mark.parametrize(
    ("finder", "text"),
    [
        (find_sql_of_turns, "X = 'SELECT 1 FROM turns t'"),
        (find_sql_of_turns, "X = f'UPDATE turns SET {y}'"),
        (find_writes_of_turns, "X = f'UPDATE turns t SET {y}'"),
        (find_writes_of_turns, "X = 'DELETE FROM turns'"),
        (find_environment, "import os; os.environ['X']"),
        (find_environment, "import os; os.getenv('X')"),
        (find_environment, "from os import environ"),
        (find_connects, "import psycopg; psycopg.connect(url)"),
        (find_connects, "import psycopg; psycopg.AsyncConnection.connect(url)"),
        (find_bare_folders, "from worker.worker_process import run"),
        (find_bare_folders, "import relay"),
        (find_test_modules, "from tests.relay.test_loop import make_due"),
        (find_test_modules, "from tests.relay import test_loop"),
        (find_test_modules, "import tests.relay.test_loop"),
        (find_naps, "import time; time.sleep(1)"),
        (find_naps, "async def f(): await asyncio.sleep(0)"),
        (find_naps, "from time import sleep"),
    ],
)
def test_what_is_looked_for_would_be_found(finder: Finder, text: str) -> None:
    assert finder(ast.parse(text)) == [1]
    assert HINTS[finder].search(text)


@pytest.mark.parametrize(
    ("finder", "text"),
    [
        (find_sql_of_turns, "'The turns that are due, taken from turns in the table'"),
        (find_sql_of_turns, "X = 'SELECT 1 FROM turn_attempts'"),
        (find_writes_of_turns, "X = 'SELECT 1 FROM turns t FOR UPDATE OF t'"),
        (find_environment, "def environment(): ..."),
        (find_connects, "import psycopg; database.connect(psycopg)"),
        (find_bare_folders, "from turnstile.worker import app"),
        (find_test_modules, "from tests.support.stacks import stack"),
        (find_test_modules, "from tests.relay.conftest import relay"),
        (find_naps, "asleep = 1"),
    ],
)
def test_what_is_something_else_is_not_found(finder: Finder, text: str) -> None:
    assert finder(ast.parse(text)) == []


def test_no_file_is_too_long_to_be_one_thing() -> None:
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in python_files(*PRODUCT, "bench")}

    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES and name not in LISTS} == {}


def test_no_test_file_is_too_long_to_be_one_behaviour() -> None:
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in python_files("tests")}

    assert {name: lines for name, lines in lengths.items() if lines > MAX_TEST_LINES} == {}


def test_no_test_module_is_imported() -> None:
    """What several test modules use stands in a conftest.py or in tests/support."""
    assert found_in(find_test_modules, "tests", *PRODUCT, "bench") == []


def test_the_processes_have_their_sql_of_the_status_table_from_the_library() -> None:
    folders = [f"turnstile/{name}" for name in PROCESSES if name not in {"ops", "migrations"}]

    assert {where.rpartition("/")[0] for where in found_in(find_sql_of_turns, *folders)} == {ONLOOKER}


def test_operators_write_the_status_table_only_in_the_listed_files() -> None:
    found = found_in(find_writes_of_turns, "turnstile")

    assert {where.partition(":")[0] for where in found if not where.startswith(HOMES_OF_WRITES)} == OPERATORS_WRITES


def test_the_environment_is_read_in_one_place() -> None:
    found = found_in(find_environment, *PRODUCT)

    known = (*HOMES_OF_THE_ENVIRONMENT, *HANDS_THE_ENVIRONMENT_ON)
    assert [where for where in found if not where.startswith(known)] == []


def test_every_connection_to_postgres_takes_the_schema() -> None:
    found = found_in(find_connects, *PRODUCT)

    assert {where.partition(":")[0] for where in found} == set(CONNECTS_WITHOUT_A_POOL)


def test_a_process_is_imported_by_its_place_in_the_package_only() -> None:
    assert found_in(find_bare_folders, *PRODUCT, "bench", "tests") == []


def test_the_top_level_links_to_the_folders_that_readers_look_for_first() -> None:
    links = {path.name: path.readlink().as_posix() for path in ROOT.iterdir() if path.is_symlink()}

    assert {name: links.get(name) for name in LINKED} == {name: f"turnstile/{name}" for name in LINKED}


def test_tests_wait_on_conditions_and_do_not_sleep() -> None:
    found = found_in(find_naps, "tests")

    assert [where for where in found if where.partition(":")[0] not in MAY_SLEEP] == []


def test_a_file_is_named_after_one_behaviour() -> None:
    names = [name for name, _ in python_files(*PRODUCT, "bench", "tests")]

    assert [name for name in names if VAGUE & set(re.split(r"[/_.]", name))] == []
