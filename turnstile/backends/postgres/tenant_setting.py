"""Tells Postgres which tenants a transaction is about: row-level security hides the rows of all others from the API's role.

The names come from the parameters that say whose rows a call is about: `tenant`, `tenants` or `tenant_id`. A statement whose call
names nobody sees no row, so a read by ids alone names its tenants, too.
"""

from collections.abc import Iterable
from typing import LiteralString

from turnstile.backends.postgres.placeholders import Parameters

NAME_TENANTS: LiteralString = "SELECT set_config('turnstile.tenants', %(names)s, true)"
"""For the rest of its transaction: a pooler that lends the connection to others in between leaves nothing to them."""


def names_of(tenants: Iterable[str]) -> dict[str, str]:
    """The parameters of NAME_TENANTS. The name of a tenant has no comma (`turn.identifiers.ID_RULE`)."""
    return {"names": ",".join(dict.fromkeys(tenants))}


def tenants_in(calls: Iterable[Parameters]) -> set[str]:
    """The tenants that the calls are about."""
    found: set[str] = set()
    for parameters in calls:
        found.update(parameters.get("tenants", ()))
        found.update(name for key in ("tenant", "tenant_id") if (name := parameters.get(key)) is not None)
    return found
