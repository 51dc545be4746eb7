"""What `turnstile dev` shows of an error in the user's code: file and line, the line itself, and the error."""

import importlib.util
import json
from pathlib import Path

import pytest

from turnstile.dev.reload.code_error import describe


def fail(folder: Path, code: str) -> BaseException:
    """What the import of a module with this code raises."""
    file = folder / "agent.py"
    file.write_text(code)
    spec = importlib.util.spec_from_file_location("agent", file)
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - whatever the code raises
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return caught.value


def test_a_syntax_error_is_shown_with_its_place_and_nothing_of_the_import(tmp_path: Path) -> None:
    shown = describe(fail(tmp_path, "def respond(turn, ctx):\n    return (1\n"), tmp_path)

    assert shown.splitlines()[0] == '  File "agent.py", line 2'
    assert "return (1" in shown
    assert shown.splitlines()[-1] == "SyntaxError: '(' was never closed"


def test_an_import_error_names_the_line_that_imports(tmp_path: Path) -> None:
    shown = describe(fail(tmp_path, "import os\nimport no_such_module\n"), tmp_path)

    assert shown.splitlines() == [
        '  File "agent.py", line 2, in <module>',
        "    import no_such_module",
        "ModuleNotFoundError: No module named 'no_such_module'",
    ]


def test_an_error_deep_in_a_library_is_shown_by_the_users_own_lines(tmp_path: Path) -> None:
    shown = describe(fail(tmp_path, "import json\n\ndef read():\n    return json.loads('{')\n\nread()\n"), tmp_path)

    assert [line for line in shown.splitlines() if line.startswith("  File")] == [
        '  File "agent.py", line 6, in <module>',
        '  File "agent.py", line 4, in read',
    ]
    assert "JSONDecodeError" in shown


def test_an_error_without_a_line_of_the_users_is_shown_by_the_others(tmp_path: Path) -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")

    shown = describe(caught.value, tmp_path)

    assert "test_code_error.py" in shown
    assert shown.splitlines()[-1].startswith("json.decoder.JSONDecodeError")
