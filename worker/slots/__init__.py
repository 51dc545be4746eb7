"""The slots of a worker, and who gets the next one."""
