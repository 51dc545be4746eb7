"""Whose credential a request shows: a key of the settings, or one of the table."""
