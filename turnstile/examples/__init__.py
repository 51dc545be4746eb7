"""Examples to try Turnstile: a handler that needs no model, and conversations to submit to it."""
