"""Why a turn waits: its facts, the decision with its words, the command. The decision is pure."""
