"""SQS calls: transport, credentials and signature."""
