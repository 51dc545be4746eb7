"""What a planted bug is, and the run that it is tried in."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.proof.chaos.scaled_settings import Options

Plant = Callable[[], None]

SHORT = {
    "seconds": 8.0,
    "clients": 6,
    "workers": 3,
    "apis": 1,
    "relays": 1,
    "lanes": 2,
    "between_faults_seconds": 0.5,
    "bound_seconds": 15.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """A bug that a developer might have written."""

    name: str
    what: str
    """In a sentence."""
    plant: Plant
    invariant: str
    """Under which it must be convicted, whatever else it breaks."""
    options: Options


BUGS: dict[str, PlantedBug] = {}
"""By name; `catalogue` imports all of them."""


def planted(invariant: str, *kinds: str, **options: object) -> Callable[[Plant], Plant]:
    """A function that plants a bug, named after it.

    It is tried in a short run with these kinds of faults (none: a calm run) and the options that the bug needs.
    """

    def register(plant: Plant) -> Plant:
        name = plant.__name__.replace("_", "-")
        run = Options(kinds=kinds or ("none",), **{**SHORT, **options})  # type: ignore[arg-type]
        what = (plant.__doc__ or "").partition("\n")[0]
        BUGS[name] = PlantedBug(name=name, what=what, plant=plant, invariant=invariant, options=run)
        return plant

    return register
