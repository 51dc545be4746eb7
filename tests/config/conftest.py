"""Fixtures only."""

import os
from pathlib import Path

import pytest

OURS = ("TURNSTILE_", "DATABASE_URL", "REDIS_URL", "AWS_", "ECS_")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the caller's shell, and no file in the working directory."""
    for name in os.environ:
        if name.startswith(OURS):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
