"""Submit: turns are committed, then their wake-ups are sent. For the API, for handlers that start children, for batch jobs."""
