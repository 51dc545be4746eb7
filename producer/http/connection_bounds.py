"""How many connections, requests and streams an API process takes at a time. Pure.

The bound is that of the connections; the others are shares of it. What a process needs for itself (Postgres, Redis, SQS, its log)
is left out of it, so that it never runs out of file descriptors because of its clients.
"""

from dataclasses import dataclass

from turnstile.errors import SettingsError

MOST_CONNECTIONS = 10_000
"""Where many more files may be open: an open stream takes some 25 KB of memory."""

UNLIMITED = -1
"""What `resource.getrlimit` says where there is no limit."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one process takes at a time."""

    connections: int
    """Connections of clients. Beyond, the one that has kept the server waiting longest is closed."""

    @property
    def requests(self) -> int:
        """Requests that are being answered. The rest of the connections are there to say 503."""
        return self.connections - self.connections // 8

    @property
    def watches(self) -> int:
        """Of these, event streams and waits, which last. The rest are there for submits, cancels and reads."""
        return self.connections // 2


def find_bounds(open_files: int, connections: int | None) -> Bounds:
    """The bounds of a process that may have `open_files` files open. `connections`: as many as the settings say.

    Raises SettingsError where these are more than the process can have.
    """
    allowed = MOST_CONNECTIONS * 10 if open_files == UNLIMITED else open_files * 3 // 4
    if connections is None:
        return Bounds(max(1, min(allowed, MOST_CONNECTIONS)))
    if connections > allowed:
        raise SettingsError(
            f"TURNSTILE_API_CONNECTIONS: {connections} connections need a limit of {-(-connections * 4 // 3)} open files, "
            f"and this process has {open_files}; raise it (`ulimit -n`), or set fewer"
        )
    return Bounds(connections)
