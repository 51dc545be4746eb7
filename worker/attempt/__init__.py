"""One run of the user's function, and what it may ask for."""
