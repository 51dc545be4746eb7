"""The sessions that do not move, and three ways to move one: wake, retry, skip."""
