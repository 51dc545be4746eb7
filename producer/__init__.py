"""Takes turns over HTTP, records them, sends the wake-up. Never imports the worker."""
