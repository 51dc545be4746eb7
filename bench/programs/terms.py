"""The parameters of every contender written in Python, and how it notes that a handler began.

Imports nothing: the peers have an environment of their own, without the product.
"""

import os
import struct
import time

QUEUE = os.environ.get("BENCH_QUEUE", "")
QUEUE_URL = os.environ.get("BENCH_QUEUE_URL", "")
SLOTS = int(os.environ.get("BENCH_SLOTS", "64"))
SLEEP_SECONDS = float(os.environ.get("BENCH_SLEEP_SECONDS", "0"))
REPLY = os.environ.get("BENCH_REPLY", "done")
"""What the product's handler answers."""

START = struct.Struct("<qq")
"""The job's number, and the wall clock in nanoseconds."""

_record = os.open(os.environ.get("BENCH_RECORD", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def begin(number: int) -> None:
    """Notes that the handler of this job begins now. One short append: processes and threads may share the file."""
    os.write(_record, START.pack(number, time.time_ns()))
