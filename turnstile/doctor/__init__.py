"""`turnstile doctor`: the checks, and what it asks and changes in Postgres."""
