"""The embedded local stack: real PostgreSQL, real Redis and an SQS API as ordinary processes of this machine, without
Docker and without root. `stack.py` is the entry point (up, down, find). Each service has a file; `lifecycle.py` is shared by the
services, `processes.py` handles one detached process, `run_as.py` chooses the account and the folder of the servers, and
`ports.py` their ports. `roles.py` names the roles of Postgres, and `tables.py` makes them and the tables.
"""
