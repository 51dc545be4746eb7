"""`turnstile top`: a live screen of queues, workers, running turns and failures."""
