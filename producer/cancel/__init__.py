"""Cancels that clients request."""
