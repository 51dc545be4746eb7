"""The events of a turn, through Redis: written by the worker, read by the API."""
