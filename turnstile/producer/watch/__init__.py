"""Follows turns for clients: their events and their end."""
