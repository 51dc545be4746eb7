"""A consumer on a real queue, without a database."""

import pytest

from tests.worker.consumer.consumers import Rig
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues


@pytest.fixture
def database_url() -> str:
    """No database is needed."""
    return "postgresql://127.0.0.1:1/none"


@pytest.fixture
def rig(settings: Settings, queues: MessageQueues) -> Rig:
    return Rig(settings, queues)
