"""Keeps the places of running turns: the heartbeat's part of the limits. A place lasts for a lease."""

from collections.abc import Iterable, Sequence

from turnstile.limits.fleet_limits import FleetLimits, Gone, Keep
from turnstile.worker.heartbeat_entry import HeartbeatEntry

BATCH = 200


def placed_turns(entries: Iterable[HeartbeatEntry]) -> list[HeartbeatEntry]:
    """Those that have places. Also without Postgres: their handlers go on, and use what the limit counts."""
    return [entry for entry in entries if entry.places is not None]


async def keep_places(limits: FleetLimits, entries: Sequence[HeartbeatEntry]) -> None:
    """Makes their places last for a lease more, and takes those again that are gone: after a flush, or a long pause."""
    for start in range(0, len(entries), BATCH):
        await _keep(limits, entries[start : start + BATCH])


async def _keep(limits: FleetLimits, entries: Sequence[HeartbeatEntry]) -> None:
    # Read once: the worker's thread sets them to None.
    asked = [(entry, places) for entry in entries if (places := entry.places) is not None]
    outcome = await limits.run([Keep(places) for _, places in asked]) if asked else None
    if outcome is None:
        return
    # Places that were just given back are gone, too.
    again = [
        Keep(places, anew=True)
        for (entry, places), answer in zip(asked, outcome.answers, strict=True)
        if isinstance(answer, Gone) and entry.places is places
    ]
    if again:
        await limits.run(again)
