"""Access to Postgres, Redis and SQS, one folder each, and the tools that they share. Nothing here knows turns."""
