"""The plans of abuse: one tenant floods, or a crowd of clients calls, while the load of all goes on.

The slots bound what the workers of a flood can do, and not the CPU: otherwise a small machine would show how fast it is, and not
who waits for whom.
"""

from collections.abc import Mapping
from dataclasses import replace

from tests.proof.chaos.scaled_settings import TENANTS
from tests.proof.load.arrivals import Ask
from tests.proof.load.plan import Plan

FORMS = ("flood", "crowd")
MINUTES = {"flood": 2.0, "crowd": 5.0}
"""How long a form takes unless it is told."""

FLOODER, QUIET = TENANTS
FLOODING = 0.95
OVERLOAD = 1.2
"""The load of a flood, as a share of the capacity: the flooder's turns wait, and ever more of them."""
MOST_DELAY_SECONDS = 1.0
"""By this the flood may delay the p95 of the quiet tenant's turns."""

CALM = 0.12
"""The load that a crowd meets; its burst is ten times as much, and more than can be done."""
BURST_FACTOR = 10.0
FOLLOWED = 10
"""The turns that the crowd polls and follows. They are few, and each runs as long as the crowd is there."""


def flood(plan: Plan) -> Plan:
    return replace(
        plan, over_http=True, flooding=FLOODING, share=OVERLOAD, burst_factor=1.0, workers=1, most_workers=1, slots=8
    )


def crowd(plan: Plan) -> Plan:
    """The crowd is there in the middle, and so is the burst, which lasts a minute of five; the last third shows the recovery."""
    return replace(
        plan,
        over_http=True,
        crowd_seconds=plan.seconds / 3,
        share=CALM,
        burst_factor=BURST_FACTOR,
        burst_every=plan.seconds,
        burst_seconds=plan.seconds / 5,
    )


def tenants_of(plan: Plan) -> Mapping[str, float]:
    return {FLOODER: plan.flooding, QUIET: 1 - plan.flooding} if plan.flooding else dict.fromkeys(TENANTS, 1.0)


def followed(number: int, seconds: float) -> Ask:
    """A turn for the crowd to follow."""
    content = {"do": "sleep", "seconds": seconds, "history": False, "n": f"crowd-{number}"}
    return Ask(tenant=FLOODER, session=f"crowd-{number}", key=f"crowd-{number}", content=content)
