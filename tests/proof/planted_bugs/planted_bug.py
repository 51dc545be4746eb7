"""What a planted bug is, and the run that it is tried in."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.proof.chaos.scaled_settings import Options

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
    plant: Callable[[], None]
    """Plants it in this process."""
    invariant: str
    """Under which it must be convicted, whatever else it breaks."""
    options: Options


def planted(invariant: str, *kinds: str, **options: object) -> Callable[[Callable[[], None]], PlantedBug]:
    """Makes a bug of a function that plants it; the function gives it its name, and its docstring's first line says what it is.

    It is tried in a short run with these kinds of faults (none: a calm run) and the options that the bug needs.
    """

    def make(plant: Callable[[], None]) -> PlantedBug:
        return PlantedBug(
            name=plant.__name__.replace("_", "-"),
            what=(plant.__doc__ or "").partition("\n")[0],
            plant=plant,
            invariant=invariant,
            options=Options(kinds=kinds or ("none",), **{**SHORT, **options}),  # type: ignore[arg-type]
        )

    return make
