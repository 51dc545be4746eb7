"""The planted bugs: each with the run that shows it and the invariant under which it must be convicted.

They are patches of the product's statements and functions, in the processes of one chaos run. Nothing of them ships.
"""

from tests.proof.planted_bugs import (
    in_code,
    in_conversations,
    in_erasures,
    in_families,
    in_memory,
    in_relay,
    in_statements,
)
from tests.proof.planted_bugs.planted_bug import PlantedBug

_FILES = (in_statements, in_code, in_relay, in_memory, in_conversations, in_families, in_erasures)
BUGS: dict[str, PlantedBug] = {
    bug.name: bug for file in _FILES for bug in vars(file).values() if isinstance(bug, PlantedBug)
}
"""By name."""
