"""`turnstile doctor`: checks a live system and reports the findings."""
