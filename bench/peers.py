"""The peers' packages, apart from the product's: what one of them pins must not decide what the product runs on."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
HOME = HERE.parent / ".bench"
PEERS_BIN = HOME / "peers" / "bin"
NODE_FOLDER = HOME / "node"
LOCK = HERE / "peers.lock"
NODE_PACKAGES = HERE / "package.json"
REPORTED = ("celery", "kombu", "taskiq", "taskiq-aio-sqs")
"""Whose versions the results name."""


def install() -> None:
    """Installs what is locked, where it is not installed yet; bbc's only where there is npm."""
    if _is_older(HOME / "peers.lock", LOCK):
        print("installing the peers' packages", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME / "peers")], check=True)  # noqa: S603
        pip = [str(PEERS_BIN / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        subprocess.run([*pip, "--requirement", str(LOCK)], check=True, env=environment)  # noqa: S603
        shutil.copy(LOCK, HOME / "peers.lock")
    npm = shutil.which("npm")
    if npm and _is_older(NODE_FOLDER / "package.json", NODE_PACKAGES):
        NODE_FOLDER.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--silent", "--no-package-lock", "--no-audit", "--no-fund"]
        shutil.copy(NODE_PACKAGES, NODE_FOLDER / "package.json")
        if subprocess.run(command, cwd=NODE_FOLDER, check=False).returncode != 0:  # noqa: S603
            # One contender fewer, and the table says so.
            (NODE_FOLDER / "package.json").unlink()


def versions() -> dict[str, str]:
    if not (PEERS_BIN / "python").exists():
        return {}
    listed = subprocess.run(  # noqa: S603
        [str(PEERS_BIN / "python"), "-m", "pip", "freeze"], capture_output=True, text=True, check=True
    ).stdout
    found = dict(line.split("==") for line in listed.splitlines() if "==" in line)
    node = json.loads(NODE_PACKAGES.read_text())["dependencies"]
    return {name: found[name] for name in REPORTED if name in found} | {"sqs-consumer": node["sqs-consumer"]}


def _is_older(installed: Path, wanted: Path) -> bool:
    return not installed.exists() or installed.read_bytes() != wanted.read_bytes()
