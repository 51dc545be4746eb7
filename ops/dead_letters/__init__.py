"""Dead letters: the pass over their queue, and the redrive."""
