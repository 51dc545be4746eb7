"""Submits: from the request body to a committed turn and its wake-up."""
