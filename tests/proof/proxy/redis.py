"""Redis: commands that take or give back a lock are executed, and their answers lost."""

import re

from tests.proof.proxy.connection import Connection

_WRITES = re.compile(rb"\$(?:4\r\nEVAL|7\r\nEVALSHA|3\r\nSET)\r\n", re.IGNORECASE)


class RedisConnection(Connection):
    """Looks at what a client says only while the fault is set.

    A chunk is taken for a request: a client sends a pipeline in one piece unless it is very long, and then what did not
    come with the first piece is lost before it got to Redis.
    """

    def from_client(self, data: bytes) -> None:
        self.gate.count("requests")
        if self.gate.find("answer_lost") and _WRITES.search(data) and self.gate.strike("answer_lost"):
            self.lose_answer()
            self.up.feed(data)
            self.request_complete()
        else:
            self.up.feed(data)
