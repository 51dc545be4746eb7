"""An operator at a terminal: three commands at most, printed with what they say (`make incidents`)."""

import asyncio
import os

import pytest

from tests.e2e.harness import Product, process_environment
from tests.ops.command_line import Ran, invoke
from turnstile.config.settings import Settings

MOST_COMMANDS = 3


class OperatorOnCall:
    """Runs the product's commands and remembers what they said."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._said: list[str] = []

    async def runs(self, *arguments: str, **more: str) -> Ran:
        """One command, with its output on the terminal of the test."""
        assert len(self._said) < MOST_COMMANDS, f"an incident is named within {MOST_COMMANDS} commands"
        ran = await asyncio.to_thread(invoke, *arguments, **{**self._environment, **more})
        self._said.append(ran.out + ran.err)
        print(f"\n$ turnstile {' '.join(arguments)}\n{ran.out}{ran.err}".rstrip())
        return ran

    def has_read(self, *words: str) -> bool:
        """Whether the output so far has all these words, whatever the line breaks between them."""
        text = " ".join(" ".join(self._said).split())
        return all(word in text for word in words)


@pytest.fixture
def visibility_seconds() -> float:
    """Room for the lease by which the operator's commands judge whether a worker is silent."""
    return 60.0


@pytest.fixture
def on_call(product: Product, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> OperatorOnCall:
    # It would leave the whole run's logs pointed at the command's standard error, which is closed afterwards.
    monkeypatch.setattr("turnstile.config.logs.configure", lambda settings: None)
    # The lease of the commands is longer than that of the workers: no busy machine makes a worker silent.
    environment = {**process_environment(settings, "worker"), "TURNSTILE_LEASE_SECONDS": "30", "COLUMNS": "200"}
    return OperatorOnCall({**os.environ, **environment})
