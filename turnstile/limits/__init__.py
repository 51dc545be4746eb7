"""Limits that hold for all workers together: what a turn counts for, and the places and tokens in Redis."""
