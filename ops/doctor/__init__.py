"""`turnstile doctor`: what must hold of a system, looked at while it works, and what of it can be repaired by hand."""
