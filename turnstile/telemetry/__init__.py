"""What a process measures of itself, and how that leaves the process."""
