"""The embedded local stack: real PostgreSQL, real Redis and an SQS API as ordinary processes of this machine, without
Docker and without root. `stack.py` is the way in (up, down, find); the other files are its parts: one for each
service, `lifecycle.py` for what they have in common, `processes.py` for one detached process, `quarters.py` for the
account and the folder they live in, `ports.py` for their addresses.
"""
