"""The server and the language of its answers. No turn in it."""
