"""What a session remembers: its history, and what its handlers keep for themselves."""
