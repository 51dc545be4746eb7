"""Delivery of completion webhooks."""
