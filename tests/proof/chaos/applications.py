"""Applications: they submit in transactions of their own, which commit, are rolled back, or end with their application."""

import asyncio
import os
import random
from collections.abc import Mapping
from enum import StrEnum
from typing import Any
from unittest.mock import patch

import psycopg

from tests.proof.chaos.supervisor import pause
from turnstile.config.config_file import load
from turnstile.submission.callers_transaction import Submitter

TIMEOUT_SECONDS = 4.0
LONGEST_OPEN_SECONDS = 1.0
"""How long a transaction stays open after its submit, at most."""


class Fate(StrEnum):
    COMMITS = "commits"
    ROLLS_BACK = "rolls back"
    DIES = "dies"


def draw_fate(rng: random.Random) -> Fate:
    return rng.choices((Fate.COMMITS, Fate.ROLLS_BACK, Fate.DIES), weights=(6, 1, 1))[0]


class Application:
    """Connects for each transaction anew, under the environment of a process of the run."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.start_again()

    def start_again(self) -> None:
        """Reads the settings and the keys of contents, as its process does at its start."""
        with patch.dict(os.environ, self._environment):
            settings = load()
        self._submitter = Submitter(settings)
        self._url = settings.database_url

    async def submit(
        self, session: str, content: Any, fate: Fate, open_seconds: float, **options: Any
    ) -> tuple[str, str | None]:
        """What the application knows then (ok, fail, unknown), and the id of a turn that is there for sure."""
        committing = False
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                connection = await psycopg.AsyncConnection.connect(self._url)
                try:
                    submitted = await self._submitter.submit(connection, session, content, **options)
                    await pause(open_seconds)
                    if fate is Fate.COMMITS:
                        committing = True
                        await connection.commit()
                        return "ok", str(submitted.id)
                    if fate is Fate.ROLLS_BACK:
                        await connection.rollback()
                finally:
                    # Also in the middle of a transaction, as when its process ends.
                    await connection.close()
        except (psycopg.Error, TimeoutError):
            return "unknown" if committing else "fail", None
        return "fail", None
