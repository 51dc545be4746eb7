"""An operator at a terminal: three commands at most, printed with what they say (`make incidents`)."""

import asyncio
import json
import os

import pytest

from tests.e2e.harness import Product, WorkerProcess, process_environment
from tests.ops.invoke import Ran, invoke
from turnstile.config.settings import Settings

MOST_COMMANDS = 3


class OperatorOnCall:
    """Runs the product's commands and remembers what they said."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._said: list[str] = []

    async def runs(self, *arguments: str, **more: str) -> Ran:
        """One command, with its output on the terminal of the test."""
        ran = await asyncio.to_thread(invoke, *arguments, **{**self._environment, **more})
        self._reads(f"turnstile {' '.join(arguments)}", ran.out + ran.err)
        return ran

    def searches_log(self, process: WorkerProcess, level: str) -> None:
        """The lines of a level in the log of a process, which is where some trouble is named. Counts as a command."""
        lines = [json.dumps(line) for line in process.lines() if line["level"] == level]
        self._reads(f'grep \'"level": "{level}"\' {process.log_path.name}', "\n".join(lines))

    def _reads(self, command: str, said: str) -> None:
        assert len(self._said) < MOST_COMMANDS, f"an incident is named within {MOST_COMMANDS} commands"
        self._said.append(said)
        print(f"\n$ {command}\n{said}".rstrip())

    def has_read(self, *words: str) -> bool:
        """Whether the output so far has all these words, whatever the line breaks between them."""
        text = " ".join(" ".join(self._said).split())
        return all(word in text for word in words)


@pytest.fixture
def visibility_seconds() -> float:
    """Room for the lease by which the operator's commands judge whether a worker is silent."""
    return 60.0


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """What an incident has lost stays lost until the operator has looked."""
    return settings.model_copy(update={"resend_seconds": 60.0})


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the doctor, what has lasted for a second is late, and not what has lasted for ten."""
    monkeypatch.setattr("turnstile.ops.doctor.run_checks.MARGIN_SECONDS", 1.0)


@pytest.fixture
def on_call(product: Product, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> OperatorOnCall:
    # It would leave the whole run's logs pointed at the command's standard error, which is closed afterwards.
    monkeypatch.setattr("turnstile.process.logs.configure", lambda settings: None)
    # The lease of the commands is longer than that of the workers: no busy machine makes a worker silent.
    environment = {**process_environment(settings, "doctor"), "TURNSTILE_LEASE_SECONDS": "30", "COLUMNS": "200"}
    return OperatorOnCall({**os.environ, **environment})
