"""Turns as an operator sees them: lists, one turn with its attempts, its trace, its cancel."""
