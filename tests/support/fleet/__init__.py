"""Redis as production has it: sentinels, a cluster, TLS. Real servers of the tests' own, from the stack's program."""
