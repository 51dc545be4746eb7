"""Whether a process serves several tenants, so that none of them may take all that they share."""

from turnstile.config.settings import Settings


def has_several_tenants(settings: Settings) -> bool:
    """Whether several tenants have keys. A worker may have no keys in its settings, and learns of tenants by their turns."""
    return len({tenant for tenant, _ in settings.api_keys}) > 1
