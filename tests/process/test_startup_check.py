"""The start of a process: a certificate that does not verify and a Postgres that is too old are errors, an outage is not."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from tests.support.fleet.certificates import Certificates, make
from tests.support.fleet.tls_front import TlsFront
from tests.support.stacks.stack import Stack
from tests.support.stated_version import stating
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.dev.stack.ports import LOOPBACK, choose_free
from turnstile.errors import CertificateRefusedError, ServerTooOldError
from turnstile.process.startup_check import check_servers

SCHEMES = {
    "single": "rediss://{at}/0",
    "sentinels": "rediss+sentinel://{at}/turnstile/0",
    "cluster": "rediss+cluster://{at}",
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def postgres(stack: Stack, certificates: Certificates) -> Iterator[TlsFront]:
    with TlsFront(stack.postgres.port, certificates.server) as front:
        yield front


@pytest.fixture
def redis_front(stack: Stack, certificates: Certificates) -> Iterator[TlsFront]:
    with TlsFront(stack.redis.port, certificates.server) as front:
        yield front


def database_at(settings: Settings, port: int, authority: Path, host: str = "localhost") -> Settings:
    """Settings with a Postgres that has to show its certificate."""
    given = urlsplit(settings.database_url)
    user = given.netloc.rpartition("@")[0]
    url = f"postgresql://{user}@{host}:{port}{given.path}?sslmode=verify-full&sslrootcert={authority}"
    return settings.model_copy(update={"database_url": url})


def redis_at(settings: Settings, scheme: str, port: int, authority: Path) -> Settings:
    """Settings with a Redis that has to."""
    login = urlsplit(settings.redis_url).netloc.rpartition("@")[0]
    url = f"{SCHEMES[scheme].format(at=f'{login}@{LOOPBACK}:{port}')}?ssl_ca_certs={authority}"
    return settings.model_copy(update={"redis_url": url})


async def test_a_postgres_that_shows_its_certificate_is_worked_with(
    settings: Settings, postgres: TlsFront, certificates: Certificates
) -> None:
    trusting = database_at(settings, postgres.port, certificates.authority)

    await check_servers(trusting)

    async with Database(trusting.database, "test", size=1, wait_seconds=30.0) as database:
        assert await database.fetch("SELECT 1 AS one", {}) == [{"one": 1}]


async def test_a_postgres_of_an_unknown_authority_is_refused(
    settings: Settings, postgres: TlsFront, certificates: Certificates
) -> None:
    with pytest.raises(CertificateRefusedError, match=r"^DATABASE_URL: .*certificate verify failed"):
        await check_servers(database_at(settings, postgres.port, certificates.stranger))


async def test_a_postgres_with_the_certificate_of_another_host_is_refused(
    settings: Settings, stack: Stack, certificates: Certificates
) -> None:
    with (
        TlsFront(stack.postgres.port, certificates.elsewhere) as front,
        pytest.raises(CertificateRefusedError, match=r"elsewhere\.example\.com.* does not match host name"),
    ):
        await check_servers(database_at(settings, front.port, certificates.authority))


async def test_a_postgres_without_tls_is_refused_where_it_is_asked_for(
    settings: Settings, stack: Stack, certificates: Certificates
) -> None:
    with pytest.raises(CertificateRefusedError, match="server does not support SSL"):
        await check_servers(database_at(settings, stack.postgres.port, certificates.authority))


async def test_an_authority_that_is_not_a_file_is_refused(
    settings: Settings, postgres: TlsFront, tmp_path: Path
) -> None:
    with pytest.raises(CertificateRefusedError, match="root certificate file"):
        await check_servers(database_at(settings, postgres.port, tmp_path / "none.pem"))


async def test_a_redis_that_shows_its_certificate_is_taken(
    settings: Settings, redis_front: TlsFront, certificates: Certificates
) -> None:
    await check_servers(redis_at(settings, "single", redis_front.port, certificates.authority))


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_redis_of_an_unknown_authority_is_refused(
    settings: Settings, redis_front: TlsFront, certificates: Certificates, scheme: str
) -> None:
    with pytest.raises(CertificateRefusedError, match=r"^REDIS_URL: .*certificate verify failed: \S+"):
        await check_servers(redis_at(settings, scheme, redis_front.port, certificates.stranger))


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_redis_with_the_certificate_of_another_host_is_refused(
    settings: Settings, stack: Stack, certificates: Certificates, scheme: str
) -> None:
    with (
        TlsFront(stack.redis.port, certificates.elsewhere) as front,
        pytest.raises(CertificateRefusedError, match="address mismatch, certificate is not valid"),
    ):
        await check_servers(redis_at(settings, scheme, front.port, certificates.authority))


async def test_a_memory_of_its_own_is_looked_at_too_and_named(
    settings: Settings, redis_front: TlsFront, certificates: Certificates
) -> None:
    memory = redis_at(settings, "single", redis_front.port, certificates.stranger).redis_url

    with pytest.raises(CertificateRefusedError, match=r"^TURNSTILE_MEMORY_REDIS_URL: "):
        await check_servers(settings.model_copy(update={"memory_redis_url": memory}))


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_redis_that_is_away_is_an_outage(settings: Settings, certificates: Certificates, scheme: str) -> None:
    await check_servers(redis_at(settings, scheme, choose_free(), certificates.authority))


async def test_a_postgres_that_is_away_is_an_outage(settings: Settings, certificates: Certificates) -> None:
    await check_servers(database_at(settings, choose_free(), certificates.authority))


async def test_a_postgres_that_is_too_old_is_refused_with_its_version(settings: Settings) -> None:
    async with stating(settings.database_url, 14) as url:
        with pytest.raises(
            ServerTooOldError, match=r"^DATABASE_URL: the server is PostgreSQL 14\.\d+, and .* 15 or newer"
        ):
            await check_servers(settings.model_copy(update={"database_url": url}))


@pytest.mark.parametrize(("major", "said"), [(15, 1), (16, 1), (17, 0), (18, 0)])
async def test_one_line_says_what_bounds_a_transaction_where_the_server_can_not(
    settings: Settings, major: int, said: int
) -> None:
    with capture_logs() as lines:
        async with stating(settings.database_url, major) as url:
            await check_servers(settings.model_copy(update={"database_url": url}))

    found = [line for line in lines if line["event"] == "database.no_transaction_timeout"]
    assert len(found) == said
    assert all(line["server"].startswith(f"{major}.") and "statement_timeout" in line["instead"] for line in found)
