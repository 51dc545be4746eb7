"""The contenders as programs of their own: what each is told stands in its environment (`BENCH_...`)."""
