"""Fixtures only: a certificate, a receiver that has it, and settings that allow webhooks to it."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.relay.webhooks.receiver import HOST, SLOW_HOST, Receiver, server_context
from tests.support.fleet.certificates import self_signed
from turnstile.config.settings import Settings
from turnstile.relay.webhooks.post import WebhookPost

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for HOST that only the test trusts."""
    return self_signed(tmp_path_factory.mktemp("tls") / "hooks.pem", HOST, SLOW_HOST, f"*.{SLOW_HOST}")


@pytest.fixture
async def receiver(certificate: Path) -> AsyncIterator[Receiver]:
    """A receiver that takes everything until the test changes its answers."""
    opened = Receiver(server_context(certificate))
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def settings(settings: Settings, receiver: Receiver) -> Settings:
    """Webhooks to the receiver are allowed."""
    given = {"webhook_hosts": (f"{HOST}:{receiver.port}",), "webhook_secrets": (SECRET,)}
    return settings.model_copy(update=given)


@pytest.fixture
def trusted(certificate: Path) -> ssl.SSLContext:
    """The usual context of a client, with one more root."""
    return ssl.create_default_context(cafile=str(certificate))


@pytest.fixture
async def post(trusted: ssl.SSLContext) -> AsyncIterator[WebhookPost]:
    """A post for which every name means this machine, which it may reach."""
    opened = WebhookPost(look_up=lambda host: ["127.0.0.1"], may_reach=lambda address: True, tls=trusted)
    yield opened
    await opened.close()
