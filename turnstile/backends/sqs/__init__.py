"""Calls of SQS: how they are carried and signed."""
