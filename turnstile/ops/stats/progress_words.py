"""What has not ended, in a few words: for `turnstile stats`, `top` and the doctor. Pure."""

from collections.abc import Sequence

from turnstile.ops.terminal.output import short_duration
from turnstile.queries.progress import Progress


def describe_not_ended(queues: Sequence[Progress]) -> str:
    """How many turns of these queues are in which state, without those that are due, which the backlog has; empty if none is."""
    counts = {
        name: sum(getattr(one, name) for one in queues)
        for name in ("snoozed", "retrying", "joining", "scheduled", "running")
    }
    longest = max((one.longest_running_seconds or 0.0 for one in queues), default=0.0)
    words = {"joining": "waiting for children"}
    text = ", ".join(f"{many} {words.get(name, name)}" for name, many in counts.items() if many)
    return f"{text} (longest {short_duration(longest)})" if counts["running"] else text


def describe_standstill(one: Progress) -> str:
    """What the turns of a queue at a standstill wait for; empty if it is none, or has no worker, which is another finding."""
    if one.still_since is None or not one.slots:
        return ""
    longest = f" (longest {short_duration(one.longest_running_seconds)})" if one.running else ""
    more = " or more" if one.truncated else ""
    waiting = [
        f"{name} {many}{more}"
        for name, many in (("snoozed", one.snoozed), ("retrying", one.retrying), ("due", one.ready))
        if many
    ]
    no_slot = ["no slot is free"] if one.running >= one.slots else []
    return ", ".join([*waiting, f"running {one.running} of {one.slots} slots{longest}", *no_slot])
