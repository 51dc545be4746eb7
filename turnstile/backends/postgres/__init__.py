"""Connections to Postgres."""
