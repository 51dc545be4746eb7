"""The fault proxy: stands between the product's processes and Postgres, Redis and SQS, and makes the network misbehave.

One process of its own, so that the harness's event loop carries no traffic. Every group of clients has a listening port
of its own (a *gate*), and every fault (a *toxic*) is set on gates: one worker can be cut off from Postgres but not from
Redis. `tests.proof.proxy.control` is how a harness starts and steers it; which toxics there are stands in
`tests.proof.proxy.toxics`.
"""
