"""The workers, their states, and the turns that they run."""
