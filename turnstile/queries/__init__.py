"""What several processes read."""
