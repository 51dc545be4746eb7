"""Processes that do not start because a server's certificate does not verify."""

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import StartWorker
from tests.support.fleet.certificates import Certificates, make
from tests.support.fleet.tls_front import TlsFront
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.dev.stack.ports import LOOPBACK
from turnstile.ops.terminal.exit_codes import ExitCode


@pytest.fixture
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def redis_front(stack: Stack, certificates: Certificates) -> Iterator[TlsFront]:
    with TlsFront(stack.redis.port, certificates.server) as front:
        yield front


@pytest.mark.parametrize("command", ["worker", "api", "relay"])
async def test_a_process_whose_redis_is_not_trusted_ends_with_one_line(
    start_worker: StartWorker, redis_front: TlsFront, certificates: Certificates, command: str
) -> None:
    url = f"rediss://{LOOPBACK}:{redis_front.port}?ssl_ca_certs={certificates.stranger}"

    process = start_worker(command, REDIS_URL=url, TURNSTILE_API_PORT="0")

    await until(lambda: process.exit_code is not None)
    assert process.exit_code == ExitCode.USAGE
    [line] = process.log_path.read_text().splitlines()
    assert "REDIS_URL: the server that answers there is not trusted: certificate verify failed" in line


async def test_a_worker_whose_postgres_is_not_trusted_ends_with_one_line(
    start_worker: StartWorker, stack: Stack, certificates: Certificates
) -> None:
    with TlsFront(stack.postgres.port, certificates.elsewhere) as front:
        url = f"postgresql://turnstile@localhost:{front.port}/postgres?sslmode=verify-full"

        worker = start_worker(DATABASE_URL=f"{url}&sslrootcert={certificates.authority}")

        await until(lambda: worker.exit_code is not None)
    assert worker.exit_code == ExitCode.USAGE
    [line] = worker.log_path.read_text().splitlines()
    assert "DATABASE_URL: the server that answers there is not trusted: server certificate for " in line
