"""Cancels on behalf of clients."""
