"""All sabotages, by name."""

from tests.proof.saboteur import how_much, what_can_be_read, what_is_forgotten, who_may_call
from tests.proof.saboteur.sabotage import Sabotage

_ALL = (*who_may_call.SABOTAGES, *how_much.SABOTAGES, *what_can_be_read.SABOTAGES, *what_is_forgotten.SABOTAGES)
SABOTAGES: dict[str, Sabotage] = {sabotage.name: sabotage for sabotage in _ALL}
