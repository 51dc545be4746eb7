"""What the relay measures once a minute: backlog, attention, standstill, workers."""
