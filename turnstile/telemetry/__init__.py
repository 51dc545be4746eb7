"""What a process tells of itself: metrics and traces, and how they leave the process."""
