"""The archive of ended turns: how they get there, and how they are read there."""
