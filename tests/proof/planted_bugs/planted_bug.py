"""What a planted bug is, and the run that it is tried in."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.proof.chaos.terms import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """A bug that somebody might have written."""

    name: str
    plant: Callable[[], None]
    invariant: str
    """Under which it must be convicted, whatever else it breaks."""
    options: Options = field(default_factory=Options)

    @property
    def what(self) -> str:
        """In a sentence."""
        return (self.plant.__doc__ or "").partition("\n")[0]


def run(*kinds: str, **more: object) -> Options:
    """A short run in small: these kinds of faults, none for a calm one, and whatever options the bug needs besides."""
    fields = {
        "seconds": 8.0,
        "clients": 6,
        "workers": 3,
        "apis": 1,
        "relays": 1,
        "lanes": 2,
        "between_faults_seconds": 0.5,
        "bound_seconds": 15.0,
        **more,
    }
    return Options(kinds=kinds or ("none",), **fields)  # type: ignore[arg-type]
