"""Terraform as the checks call it: on a copy of `infra/`, with its provider from a mirror on this machine where there is one."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

INFRA = Path(__file__).parents[2] / "infra"
MODULES = sorted(path.name for path in (INFRA / "modules").iterdir())
MIRROR_VARIABLE = "TURNSTILE_TERRAFORM_MIRROR"
PROVIDER = "hashicorp/aws"
VERSION = "5.100"
SECONDS = 1200.0

# Where packages and people put such mirrors, and how deep.
_PLACES = ("/opt", "/usr/local", "/usr/share", "/usr/lib", "~/.terraform.d", "~")
_DEPTHS = ("*", "*/*", "*/*/*")


class InfraError(Exception):
    """Terraform or a test found a fault. The message is for the person."""


class MissingError(InfraError):
    """The check can't be made on this machine: a program or the provider is missing."""


class Terraform:
    """The program, a folder to work in, and the environment of every call."""

    def __init__(self, home: Path) -> None:
        program = shutil.which("terraform")
        if program is None:
            raise MissingError("terraform is not on the PATH; it is needed from version 1.9 on")
        self._program = program
        self.home = home
        self.environment = {
            **os.environ,
            "CHECKPOINT_DISABLE": "1",
            "TF_IN_AUTOMATION": "1",
            "TF_INPUT": "0",
            # A plan asks AWS nothing; should it try, it shall not find the credentials of whoever runs this.
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
            **self._configuration(),
        }
        for variable in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            self.environment.pop(variable, None)
        self._root = home / "infra"
        # Never in the checkout: state, locks and plugins stay where they are thrown away.
        shutil.copytree(INFRA, self._root, ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))

    def _configuration(self) -> dict[str, str]:
        given = os.environ.get("TF_CLI_CONFIG_FILE")
        if given and Path(given).is_file() and MIRROR_VARIABLE not in os.environ:
            return {}
        self.mirror = find_mirror()
        if self.mirror is None:
            return {"TF_CLI_CONFIG_FILE": given} if given and Path(given).is_file() else {}
        file = self.home / "terraform.rc"
        file.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{self.mirror}"\n  }}\n}}\n')
        return {"TF_CLI_CONFIG_FILE": str(file)}

    def folder(self, name: str) -> Path:
        """`modules/…` or `examples/…` in the copy."""
        return self._root / name

    def run(self, *arguments: str, folder: Path | None = None, **environment: str) -> str:
        """Runs it and returns what it said. Raises InfraError with all of that when it fails."""
        try:
            done = subprocess.run(
                [self._program, *arguments, "-no-color"],
                cwd=folder or self._root,
                env={**self.environment, **environment},
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InfraError(f"terraform {arguments[0]} did not end within {SECONDS:g} s") from None
        if done.returncode != 0:
            raise InfraError(f"terraform {arguments[0]} in {(folder or self._root).name}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def init(self, folder: Path) -> None:
        """Makes a root ready: its provider and its modules. Raises InfraError in one line where the provider is missing."""
        try:
            self.run("init", "-backend=false", folder=folder)
        except InfraError as error:
            if "provider" not in str(error):
                raise
            raise MissingError(
                f"the provider {PROVIDER} {VERSION} is neither in a mirror on this machine ({MIRROR_VARIABLE} names one) "
                "nor to be had from the registry"
            ) from None

    def init_modules(self) -> Iterator[tuple[str, Path]]:
        """Every module by its name, ready to be validated and tested. They share one copy of the provider."""
        first = self.folder(f"modules/{MODULES[0]}")
        self.init(first)
        for name in MODULES:
            folder = self.folder(f"modules/{name}")
            if not (folder / ".terraform").exists():
                shutil.copy(first / ".terraform.lock.hcl", folder)
                (folder / ".terraform").symlink_to(first / ".terraform")
            yield name, folder

    def outputs(self, folder: Path) -> dict[str, Any]:
        """The outputs of what was applied."""
        return {name: one["value"] for name, one in json.loads(self.run("output", "-json", folder=folder)).items()}

    def state(self, folder: Path) -> dict[str, list[dict[str, Any]]]:
        """What was applied, by its type."""
        root = json.loads(self.run("show", "-json", folder=folder))["values"]["root_module"]
        found: dict[str, list[dict[str, Any]]] = {}
        for one in _resources(root):
            found.setdefault(one["type"], []).append(one["values"])
        return found


def _resources(module: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from module.get("resources", [])
    for child in module.get("child_modules", []):
        yield from _resources(child)


def find_mirror() -> Path | None:
    """A folder `<host>/hashicorp/aws/5.100.x` on this machine, as a filesystem mirror has it; the folder above the host."""
    if named := os.environ.get(MIRROR_VARIABLE):
        return Path(named)
    for place in _PLACES:
        for depth in _DEPTHS:
            for found in Path(place).expanduser().glob(f"{depth}/{PROVIDER}/{VERSION}.*"):
                return found.parents[3]
    return None
