"""The roles of the embedded Postgres: each kind of process connects as its own, as in production. Pure."""

from collections.abc import Mapping

from turnstile.ops.roles.kinds import Kind

OPERATOR = "operator"
OWNER = "owner"

ROLES: Mapping[str, str] = {
    OWNER: "turnstile_schema",
    "api": "turnstile_api",
    "worker": "turnstile_worker",
    "relay": "turnstile_relay",
    OPERATOR: "turnstile_operator",
}
"""The role of each kind of process. The owner makes the tables and gives the others their rights."""

KINDS: Mapping[str, frozenset[Kind]] = {
    ROLES["api"]: frozenset({Kind.API}),
    # It runs a relay, unless it is told not to.
    ROLES["worker"]: frozenset({Kind.WORKER, Kind.RELAY}),
    ROLES["relay"]: frozenset({Kind.RELAY}),
    # The developer's application uses it, too.
    ROLES[OPERATOR]: frozenset({Kind.OPERATOR, Kind.SUBMITTER}),
}
"""What `turnstile grant` gives each role."""
