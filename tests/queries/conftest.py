"""Fixtures only."""

import pytest

from turnstile.config.queue_settings import QueueSettings


@pytest.fixture
def queue() -> QueueSettings:
    """Declared, but not in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)
