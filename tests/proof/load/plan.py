"""What is asked of a load, and what came of it, apart from the evidence."""

from dataclasses import dataclass

from tests.proof.load.arrivals import Pace

PACED = "paced"
"""The phase of the run that counts; while it is found out what can be done, no times are taken."""
ALONE = "alone"
"""Of a flood: the phase before, in which the quiet tenant is alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The options of a load. Times in seconds."""

    over_http: bool
    seconds: float
    measure_seconds: float
    warm_up_seconds: float
    share: float
    """The load, as a share of the capacity that was measured."""
    burst_every: float = 60.0
    burst_seconds: float = 5.0
    burst_factor: float = 2.0
    handler_seconds: float = 0.1
    workers: int = 2
    most_workers: int = 3
    apis: int = 1
    slots: int = 64
    sessions: int = 1000
    """At a time."""
    sample_seconds: float = 5.0
    point_seconds: float = 1.0
    """Between two looks of target tracking, which takes a minute in production."""
    bound_seconds: float = 60.0
    """After the last turn was due, everything must have ended within this."""
    seed: int = 1
    flooding: float = 0.0
    """The share of the load that one tenant sends. The other one sends its own alone first, for a third of the time. 0: all send
    alike."""
    crowd_seconds: float = 0.0
    """How long a crowd of clients calls the API besides, from the end of the first third on. 0: none does."""
    crowd_scale: float = 1.0
    """The share of the crowd that calls."""

    @property
    def name(self) -> str:
        if self.flooding:
            return "flood"
        if self.crowd_seconds:
            return "crowd"
        return "api" if self.over_http else "queue"

    def pace(self, capacity: float) -> Pace:
        """What is asked for where so many turns a second can be done."""
        return Pace(
            per_second=self.share * capacity,
            burst_every=self.burst_every,
            burst_seconds=self.burst_seconds,
            burst_factor=self.burst_factor,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`outcome.json`: what was asked for, and when."""

    plan: Plan
    capacity: float
    """Turns a second that ended while there was always more to do."""
    begun_at: float
    ended_at: float
    """When the last turn was due."""
    rested_at: float | None
