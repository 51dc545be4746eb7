"""The statements that only read."""
