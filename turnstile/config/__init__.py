"""The settings of a process, and what a process checks and configures when it starts."""
