"""The worker: receives messages and processes their turns."""
