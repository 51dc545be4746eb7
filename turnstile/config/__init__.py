"""The settings of a process, and its checks and configuration at the start."""
