"""A stand-in of Application Auto Scaling's target tracking, as far as a fleet of workers feels it. Pure.

As AWS sets up its two alarms: three points in a row above the target add tasks, fifteen in a row below 90 % of it take some
away, and the new number is what would bring the metric to the target. Between two changes lies a cooldown, a longer one before
tasks are taken away. A point is a minute there; here it is whatever the caller makes of it.
"""

import math
from dataclasses import dataclass, replace

OUT_AFTER = 3
IN_AFTER = 15
IN_BELOW = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What `infra/modules/scaling` declares. Cooldowns in points."""

    per_task: float
    """Turns that run or wait, for each task."""
    minimum: int
    maximum: int
    in_after: int = IN_AFTER
    """AWS does not let one choose this; a short run does."""
    out_cooldown: int = 1
    in_cooldown: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    desired: int
    above: int = 0
    """Points in a row."""
    below: int = 0
    since_change: int = 0


def track(policy: Policy, standing: Tracking, work: int, tasks: int) -> Tracking:
    """After one more point of the metric: `work` by `tasks` that run."""
    metric = work / max(tasks, 1)
    above = standing.above + 1 if metric > policy.per_task else 0
    below = standing.below + 1 if metric < IN_BELOW * policy.per_task else 0
    standing = replace(standing, above=above, below=below, since_change=standing.since_change + 1)
    wanted = min(max(math.ceil(work / policy.per_task), policy.minimum), policy.maximum)
    grows = wanted > standing.desired and above >= OUT_AFTER and standing.since_change >= policy.out_cooldown
    shrinks = wanted < standing.desired and below >= policy.in_after and standing.since_change >= policy.in_cooldown
    return replace(standing, desired=wanted, since_change=0) if grows or shrinks else standing
