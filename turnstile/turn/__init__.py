"""The types of a turn: its states, its messages, its outcomes. Pure."""
