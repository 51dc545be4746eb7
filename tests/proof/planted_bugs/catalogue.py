"""The planted bugs: each with the run that shows it and the invariant under which it must be convicted.

They are patches of the product's statements and functions, in the processes of one chaos run. Nothing of them ships.
"""

from tests.proof.planted_bugs import in_code, in_conversations, in_families, in_memory, in_relay, in_statements
from tests.proof.planted_bugs.planted_bug import BUGS, PlantedBug

__all__ = [
    "BY_NAME",
    "CATALOGUE",
    "in_code",
    "in_conversations",
    "in_families",
    "in_memory",
    "in_relay",
    "in_statements",
]

BY_NAME = BUGS
CATALOGUE: tuple[PlantedBug, ...] = tuple(BUGS.values())


def plant(name: str) -> None:
    """Plants a bug in this process. KeyError if there is none of that name."""
    BY_NAME[name].plant()
