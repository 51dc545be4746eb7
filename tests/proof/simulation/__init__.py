"""Seeded simulation: the real worker, relay and intake on a virtual clock, against fakes of Postgres, Redis and SQS.

One seed is one life of a small cluster: faults first, then healing, then everything must come to rest within a bound.
The same seed gives the same life, event for event. `python -m tests.proof.simulation --help` says how to run it.
"""
