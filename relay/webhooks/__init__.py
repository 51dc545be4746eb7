"""Completion webhooks on their way."""
