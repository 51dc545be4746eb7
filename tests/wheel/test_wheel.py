"""What the wheel has: all that the package has in the clone, its licence, its types, and nothing else."""

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.wheel.building import build

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HANDLER = '''"""A handler as a user writes it."""

from turnstile import Context, Reject, Turn, handler


@handler(timeout=60, retry_on=(OSError,))
async def respond(turn: Turn, ctx: Context) -> str:
    said = [message.content for message in await ctx.history(limit=5)]
    if not said:
        raise Reject("nothing was said")
    await ctx.emit("one moment")
    fact = await ctx.memory.get("name", kind="fact")
    return f"{turn.input}, {fact.value if fact else 'stranger'}: {len(said)}"
'''


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as opened:
        [name] = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        return BytesParser().parsebytes(opened.read(name))


def files_of_the_package() -> set[str]:
    """What an editable install has, through the links of the package's folder."""
    return {
        path.relative_to(ROOT).as_posix()
        for folder, _, names in os.walk(ROOT / "turnstile", followlinks=True)
        for path in (Path(folder, name) for name in names)
        if path.suffix != ".pyc"
    }


def test_the_wheel_has_what_the_package_has_in_the_clone_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}

    assert names == files_of_the_package()
    assert {
        "turnstile/py.typed",
        "turnstile/worker/processor.py",
        "turnstile/migrations/versions/0001_initial/turns.sql",
        "turnstile/docs/runbooks/redis-down.md",
    } <= names


def test_the_metadata_says_who_may_use_it_and_how(wheel: Path, metadata: Message) -> None:
    with zipfile.ZipFile(wheel) as opened:
        [licence] = [opened.read(name) for name in opened.namelist() if name.endswith(".dist-info/licenses/LICENSE")]

    assert licence == (ROOT / "LICENSE").read_bytes()
    assert b"Apache License" in licence
    assert b"Version 2.0, January 2004" in licence
    assert (metadata["Name"], metadata["License-Expression"]) == ("turnstile-sqs", "Apache-2.0")
    assert (metadata["Requires-Python"], metadata["Description-Content-Type"]) == (">=3.11", "text/markdown")
    assert set(metadata.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    assert metadata["Author"]
    assert metadata["Keywords"]


def test_the_readme_names_the_wheel_as_it_is_called(wheel: Path) -> None:
    assert f"dist/{wheel.name}" in (ROOT / "README.md").read_text()


def test_the_handler_of_a_user_is_clean_under_the_strict_types_of_mypy(wheel: Path, tmp_path: Path) -> None:
    # mypy believes a package of an environment only if it has the marker `py.typed`.
    environment = tmp_path / "venv"
    venv.create(environment, symlinks=True)
    [packages] = environment.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(packages)
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib"))
    (tmp_path / "my_handler.py").write_text(HANDLER)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", environment / "bin/python", "my_handler.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr
