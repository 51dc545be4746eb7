"""Fixtures only: a real API and a worker, and a cable to the API that can be cut."""

from collections.abc import AsyncIterator

import pytest

from tests.producer.api.calls import KEYS
from tests.producer.api.conversation import Conversation, conversing
from tests.producer.api.network_faults import Cable, cable_to
from tests.support.process_roles import url_of
from turnstile.config.settings import Settings
from turnstile.ops.roles.kinds import Kind


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The shared settings, with a key for each of two tenants, and the API's own role of the database."""
    url = url_of(Kind.API, settings.database_url)
    return settings.model_copy(update={"api_keys": tuple(KEYS.items()), "database_url": url})


@pytest.fixture
async def talk(settings: Settings) -> AsyncIterator[Conversation]:
    async with conversing(settings) as conversation:
        yield conversation


@pytest.fixture
async def cable(talk: Conversation) -> AsyncIterator[Cable]:
    async with cable_to("127.0.0.1", talk.served.port) as cable:
        yield cable
