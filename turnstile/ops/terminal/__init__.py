"""Shared by all commands: options, output, exit codes, and the confirmation before a change."""
