"""`turnstile demo`: the main job, from one command on a bare machine, with a kill in the middle and a check at the end."""

from pathlib import Path


def run(home: Path, *, keep: bool) -> int:
    """Plays the demo on the stack at `home`; 0 only if the check holds. With `keep` the stack stays up afterwards."""
    from ops.demo.performance import perform

    return perform(home, keep=keep)
