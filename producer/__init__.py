"""The producer's side: takes turns over HTTP, records them, sends the wake-up. Never imports the worker."""
