"""What a process reports about itself: metrics and traces, and how they leave the process."""
