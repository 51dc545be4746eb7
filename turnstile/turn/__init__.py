"""The vocabulary of a turn: its states, what is said in it, what becomes of it. Pure."""
