"""The allowed addresses of webhooks, and their signature. Pure."""
