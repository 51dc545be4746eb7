"""`turnstile new`: a small project to begin with. `template` has its files as they are written."""
