"""Results on disk: one JSON file an experiment, and what machine and versions they were made with."""

import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from bench.experiment import Experiment, Sample, Samples
from bench.experiments import ALL
from bench.peers import versions

SURROUNDINGS = "run.json"
PACKAGES = ("boto3", "botocore", "psycopg", "redis", "hiredis", "sqlalchemy", "structlog", "fastapi", "uvicorn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    command: str
    date: str
    machine: str
    python: str
    revision: str
    servers: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)


def look_around(command: str, servers: Mapping[str, str]) -> Surroundings:
    cores = f"{psutil.cpu_count()} cores" + (f" ({model})" if (model := _processor()) else "")
    memory = f"{psutil.virtual_memory().total / 2**30:.0f} GB"
    return Surroundings(
        command=command,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=f"{cores}, {memory}, {platform.system()} {platform.release()}",
        python=platform.python_version(),
        revision=_revision(),
        servers=dict(servers),
        packages={name: importlib.metadata.version(name) for name in PACKAGES} | versions(),
    )


def command_line(target: str, arguments: Sequence[str], but: str) -> str:
    """The command that makes such a run again, without the option `but`, which names a folder of this machine."""
    kept = [
        word
        for before, word in pairwise(["", *arguments])
        if but not in (before, word) and not word.startswith(f"{but}=")
    ]
    return f"make {target} ARGS={shlex.quote(shlex.join(kept))}" if kept else f"make {target}"


def write_surroundings(folder: Path, surroundings: Surroundings) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SURROUNDINGS).write_text(json.dumps(asdict(surroundings), indent=1) + "\n")


def read_surroundings(folder: Path) -> Surroundings:
    return Surroundings(**json.loads((folder / SURROUNDINGS).read_text()))


def write_samples(folder: Path, experiment: Experiment, samples: Sequence[Sample]) -> None:
    """Rewritten after each round: a run that is broken off keeps what it had."""
    document: dict[str, Any] = {"experiment": experiment.name, "samples": [asdict(sample) for sample in samples]}
    (folder / f"{experiment.name}.json").write_text(json.dumps(document, indent=1) + "\n")


def read_results(folder: Path) -> Iterator[tuple[Experiment, Samples]]:
    for experiment in ALL:
        file = folder / f"{experiment.name}.json"
        if file.exists():
            yield experiment, Samples([Sample(**sample) for sample in json.loads(file.read_text())["samples"]])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _revision() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=os.path.dirname(__file__))  # noqa: S603, PTH120
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"
