"""Checks the configured servers once, when a process starts: their TLS certificates (ADR 0028), and the version of Postgres.

If a service does not respond, that is an outage: the process starts without it and waits. A certificate that does not verify
means a misconfiguration or an impostor. Waiting does not help, nor does it with a Postgres that is too old, so the operator gets
an error at once. After the start the same failure counts as an outage, because turns are in progress.
"""

import asyncio

from turnstile.backends.postgres.check_server import check_server
from turnstile.backends.redis.connect import check_certificate
from turnstile.config.settings import Settings


async def check_servers(settings: Settings) -> None:
    """Raises CertificateRefusedError, which names the setting, or ServerTooOldError. Takes a few seconds at most."""
    checks = [
        check_server("DATABASE_URL", settings.database),
        check_certificate("REDIS_URL", settings.redis_url),
    ]
    if settings.memory_redis != settings.redis_url:
        checks.append(check_certificate("TURNSTILE_MEMORY_REDIS_URL", settings.memory_redis))
    await asyncio.gather(*checks)
