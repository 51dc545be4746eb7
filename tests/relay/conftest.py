"""A relay on the real queue, for which every lease that is over is a lost worker's."""

import pytest

from tests.support.factories import Proven
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay


@pytest.fixture
def relay(of_relay: Database, queues: MessageQueues, settings: Settings) -> Relay:
    return Relay(of_relay, queues, settings, Proven())
