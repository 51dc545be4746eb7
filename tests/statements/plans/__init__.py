"""Which rows a statement reads, whatever statistics the planner has."""
