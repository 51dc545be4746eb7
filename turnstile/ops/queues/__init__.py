"""The declared queues: what is in them, pause and resume, creation."""
