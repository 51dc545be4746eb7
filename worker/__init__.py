"""Receives messages and answers turns."""
