"""`turnstile doctor`: the checks, and its statements in Postgres."""
