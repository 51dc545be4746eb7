"""The HTTP server and its response formats. Knows nothing of turns."""
