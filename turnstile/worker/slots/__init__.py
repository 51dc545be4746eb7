"""The slots of a worker, and which turn gets the next one."""
