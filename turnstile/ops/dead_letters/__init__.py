"""Dead letters: the pass over a dead-letter queue, and the redrive."""
