"""Which rows a statement touches, whatever the planner believes of the tables."""
