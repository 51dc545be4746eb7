"""The statements of `turnstile doctor`: what it looks at, and what it may write."""
