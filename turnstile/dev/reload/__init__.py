"""Workers of `turnstile dev`: a new one for each change of the code, without an error to a turn."""
