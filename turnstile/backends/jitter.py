"""Chance for waits. Not the module `random` itself: if the handlers of a fleet seed it, all workers would retry in step."""

import random

CHANCE = random.SystemRandom()
