"""The archive of ended turns: how turns are moved there and read there."""
