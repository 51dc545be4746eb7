"""What a session remembers: its history, and the items that its handlers store."""
