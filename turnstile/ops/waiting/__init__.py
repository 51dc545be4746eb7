"""Why a turn waits: the look at tables and lock, the decision, its words."""
