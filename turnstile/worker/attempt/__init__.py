"""One run of the user's function, and the context calls that it may use."""
