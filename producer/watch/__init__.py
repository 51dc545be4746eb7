"""Following a turn: its events, and waiting for its end."""
