"""The interface for handler authors. Pure."""
