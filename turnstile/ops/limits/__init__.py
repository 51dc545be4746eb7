"""The limits that hold for all workers: their use, and what operators have set in their place."""
