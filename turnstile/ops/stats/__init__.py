"""How many turns have ended and how, and how long they waited and ran."""
