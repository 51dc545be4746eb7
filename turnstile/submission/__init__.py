"""Submit: reads a turn's request, commits the turn, sends its wake-up. For the API, for children, for batch jobs."""
