"""What worker, relay and API write: one verb a file."""
