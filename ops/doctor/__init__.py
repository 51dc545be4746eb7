"""`turnstile doctor`: one look at a live system, and its report."""
