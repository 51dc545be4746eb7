"""The events of a turn's life, through Redis: written by the worker, read by the API."""
