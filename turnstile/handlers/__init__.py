"""What the author of a handler writes and sees. Pure."""
