"""Fixtures only: a certificate, a receiver that has it, and settings that allow webhooks to it."""

import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.relay.webhooks.receiver import HOST, SLOW_HOST, Receiver, server_context
from turnstile.config.settings import Settings
from turnstile.relay.webhooks.post import WebhookPost

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for HOST that nobody but the test trusts."""
    path = tmp_path_factory.mktemp("tls") / "hooks.pem"
    key = path.with_suffix(".key")
    command = [
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *(
            "-days",
            "2",
            "-subj",
            f"/CN={HOST}",
            "-addext",
            f"subjectAltName=DNS:{HOST},DNS:{SLOW_HOST},DNS:*.{SLOW_HOST}",
        ),
        *("-keyout", str(key), "-out", str(path)),
    ]
    subprocess.run(command, check=True, capture_output=True)
    path.write_text(path.read_text() + key.read_text())
    return path


@pytest.fixture
async def receiver(certificate: Path) -> AsyncIterator[Receiver]:
    """A receiver that takes everything, until it is told otherwise."""
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
def post(trusted: ssl.SSLContext) -> WebhookPost:
    """A post for which every name means this machine, which it may reach."""

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    return WebhookPost(resolve=resolve, may_reach=lambda address: True, tls=trusted)
