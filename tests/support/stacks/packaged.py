"""Versions of PostgreSQL that packages of this machine's system brought, besides the one of the embedded stack.

python -m tests.support.stacks.packaged      what `--postgres` takes for the oldest and the newest server here
"""

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from turnstile.backends.postgres.server_version import OLDEST_SERVER
from turnstile.dev.stack.postgres import VERSION, Postgres

EMBEDDED = "embedded"

_PLACES = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
)
"""Where Debian's packages, the PostgreSQL project's for Red Hat, and Homebrew put the programs."""


class PackagedPostgres(Postgres):
    """As in the embedded stack, with the programs of another folder."""

    # All versions have it. It sorts as the embedded one does.
    initdb_options: ClassVar[tuple[str, ...]] = ("--locale", "C")

    def __init__(self, *given: Any, programs: Path, **how: Any) -> None:
        super().__init__(*given, **how)
        self._programs = programs

    def find_programs(self) -> Path:
        return self._programs


def find_packaged(root: Path = Path("/")) -> dict[int, Path]:
    """By major version, the oldest first: the folders of the programs that Turnstile works with."""
    found = {
        int(re.findall(r"\d+", str(folder.relative_to(root)))[-1]): folder
        for place in _PLACES
        for folder in root.glob(place)
        if (folder / "postgres").exists() and (folder / "initdb").exists()
    }
    return {version: found[version] for version in sorted(found) if version >= OLDEST_SERVER}


def maker_of(folder: Path) -> Callable[..., Postgres]:
    return partial(PackagedPostgres, programs=folder)


def oldest_and_newest(packaged: dict[int, Path]) -> list[str]:
    versions = sorted({*packaged, VERSION})
    ends = dict.fromkeys((versions[0], versions[-1]))
    return [EMBEDDED if version == VERSION else str(version) for version in ends]


if __name__ == "__main__":
    servers = oldest_and_newest(find_packaged())
    if len(servers) == 1:
        sys.stderr.write(
            f"only the {servers[0]} PostgreSQL is here; Debian has an older one: apt-get install postgresql\n"
        )
    sys.stdout.write(" ".join(servers) + "\n")
