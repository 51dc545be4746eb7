"""`turnstile submit`: over HTTP, or with --direct into the table."""
