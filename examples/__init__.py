"""What comes with Turnstile to try it: a handler that needs no model, and conversations to give it."""
