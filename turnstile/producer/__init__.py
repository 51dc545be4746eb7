"""Accepts turns over HTTP, records them, and sends their wake-ups. Never imports the worker."""
