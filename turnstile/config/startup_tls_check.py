"""Checks the TLS certificates of the configured services once, when a process starts (H11, ADR 0028).

If a service does not respond, that is an outage: the process starts without it and waits. A certificate that does not verify
means a misconfiguration or an impostor. Waiting does not help, so the operator gets an error at once. After the start the same
failure counts as an outage, because turns are in progress.
"""

import asyncio

from turnstile.backends.postgres import certificate as database_certificate
from turnstile.backends.redis import connect as redis_connections
from turnstile.config.settings import Settings


async def check_certificates(settings: Settings) -> None:
    """Raises CertificateRefusedError, which names the setting. Takes a few seconds at most; without TLS it does nothing."""
    checks = [
        database_certificate.check_certificate("DATABASE_URL", settings.database),
        redis_connections.check_certificate("REDIS_URL", settings.redis_url),
    ]
    if settings.memory_redis != settings.redis_url:
        checks.append(redis_connections.check_certificate("TURNSTILE_MEMORY_REDIS_URL", settings.memory_redis))
    await asyncio.gather(*checks)
