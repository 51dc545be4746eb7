"""The relay: sends what is due. Runs beside each worker, or in a process of its own."""
