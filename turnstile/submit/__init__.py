"""Submit: commits turns, then sends their wake-ups. For the API, for handlers that start children, for batch jobs."""
