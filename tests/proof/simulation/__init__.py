"""Seeded simulation: the real worker, relay and intake on a virtual clock, against fakes of Postgres, Redis and SQS.

One seed is one run of a small cluster: faults first, then none, then everything must come to rest within a bound.
The same seed gives the same run, event for event. `python -m tests.proof.simulation --help` says how to run it.
"""
