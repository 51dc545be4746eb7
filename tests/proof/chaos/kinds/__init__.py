"""All kinds of faults that the nemesis knows."""
