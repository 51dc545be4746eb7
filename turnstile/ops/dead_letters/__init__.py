"""FAILED turns and their dead letters: list, redrive, drop, export."""
