"""The parts of a worker process that process no turns: health, watchdog, shutdown, scale-in protection."""
