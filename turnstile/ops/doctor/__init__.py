"""`turnstile doctor`: what is wrong in a live system, its SQL, the report, the repair."""
