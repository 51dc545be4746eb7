"""The image of production as an engine runs it: read-only, without capabilities, with nothing but Python to start."""

from typing import Any

import pytest
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.image import DockerImage

from tests.conftest import ROOT
from tests.support.stacks.stack import Stack

pytestmark = [
    pytest.mark.not_on("embedded", "it needs a Docker engine"),
    pytest.mark.not_on("aws", "it needs a Docker engine"),
]

IMAGE = "turnstile:tests"
CONFINED = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"], "network_mode": "none"}
PROGRAMS = """
import os
from pathlib import Path
folders = {os.path.realpath(folder) for folder in ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin")}
print(sorted({os.path.basename(os.path.realpath(each)) for folder in folders for each in Path(folder).iterdir()}))
"""
SETUID = """
import os
print([os.path.join(folder, name) for folder, _, names in os.walk("/", onerror=None) for name in names
       if not folder.startswith(("/proc", "/sys")) and os.lstat(os.path.join(folder, name)).st_mode & 0o6000])
"""


@pytest.fixture(scope="module")
def run(stack: Stack) -> Any:
    """Runs the image with these arguments, and returns what it prints."""
    DockerImage(str(ROOT), tag=IMAGE, clean_up=False).build()
    containers = DockerClient().client.containers
    return lambda *command, **more: containers.run(IMAGE, list(command), remove=True, **CONFINED, **more).decode()


def test_the_command_runs_confined(run: Any) -> None:
    assert run("--version").startswith("0.")


@pytest.mark.parametrize(("asks", "answer"), [(PROGRAMS, "['python3"), (SETUID, "[]")], ids=["programs", "setuid"])
def test_nothing_but_python_can_be_started(run: Any, asks: str, answer: str) -> None:
    printed = run("-c", asks, entrypoint="python").strip()

    assert printed.startswith(answer)
    assert "," not in printed, "one program"


def test_certificates_users_and_time_zones_are_there(run: Any) -> None:
    code = (
        "import os, pwd, ssl, zoneinfo; assert ssl.create_default_context().get_ca_certs();"
        "zoneinfo.ZoneInfo('Europe/Berlin'); print(pwd.getpwuid(os.getuid()).pw_name)"
    )
    assert run("-c", code, entrypoint="python").strip() == "turnstile"
