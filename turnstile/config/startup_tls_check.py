"""Whether the services behind the settings are who they should be: asked once, when a process starts (H11, ADR 0035).

A service that does not answer is away, and processes start without it and wait. One that answers over TLS and can't show who it
is was set up wrongly, or is somebody else: that does not pass by waiting, and whoever started the process should know at once.
Later on it is an outage like any other, because turns are under way by then.
"""

import asyncio

from turnstile.backends.postgres import certificate as database_certificate
from turnstile.backends.redis import connect as redis_connections
from turnstile.config.settings import Settings


async def check_certificates(settings: Settings) -> None:
    """Raises CertificateRefusedError, which names the setting. Takes a few seconds at most, and nothing without TLS."""
    checks = [
        database_certificate.check_certificate("DATABASE_URL", settings.database_url),
        redis_connections.check_certificate("REDIS_URL", settings.redis_url),
    ]
    if settings.memory_redis != settings.redis_url:
        checks.append(redis_connections.check_certificate("TURNSTILE_MEMORY_REDIS_URL", settings.memory_redis))
    await asyncio.gather(*checks)
