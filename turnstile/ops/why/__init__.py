"""Why a turn waits: the facts, the decision, its words. Decision and words are pure."""
