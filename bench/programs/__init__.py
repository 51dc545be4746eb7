"""The contenders as programs of their own: each reads its parameters from its environment (`BENCH_...`)."""
