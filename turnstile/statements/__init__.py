"""The statements that change turns: one verb per file."""
