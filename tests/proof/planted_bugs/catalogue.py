"""The planted bugs: each with the run that brings it to light and the invariant that must convict it by name.

They live here, as patches of the product's statements and functions in the processes of one chaos run. Nothing of them
ships, and nothing in the product knows of them.
"""

from tests.proof.planted_bugs import bugs_of_conversations, bugs_of_the_spine
from tests.proof.planted_bugs.planted_bug import PlantedBug

CATALOGUE: tuple[PlantedBug, ...] = (*bugs_of_the_spine.BUGS, *bugs_of_conversations.BUGS)

BY_NAME = {bug.name: bug for bug in CATALOGUE}


def plant(name: str) -> None:
    """Plants a bug in this process. KeyError if there is none of that name."""
    BY_NAME[name].plant()
