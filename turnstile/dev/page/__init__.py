"""The page of `turnstile dev`: a chat, its turns with their events, and a button that kills the worker."""
