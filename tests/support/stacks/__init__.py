"""What the tests run on: the embedded stack, containers, or queues that the run was given. `pytest --stack=...` chooses."""
