"""The relay: sends what is due. Runs in each worker's process, or in a process of its own."""
