"""Limits for the concurrent connections, requests and streams of an API process. Pure.

The limits for requests and streams are shares of the limit for connections. File descriptors for Postgres, Redis, SQS and the log
are reserved, so clients can never use up all descriptors.
"""

from dataclasses import dataclass

from turnstile.errors import SettingsError

MOST_CONNECTIONS = 10_000
"""Default limit if many more files may be open: an open stream takes about 25 KB of memory."""

UNLIMITED = -1
"""The value of `resource.getrlimit` for no limit."""


@dataclass(frozen=True, slots=True)
class Bounds:
    connections: int
    """Client connections. Above this limit, the connection that has waited longest for its client is closed."""

    @property
    def requests(self) -> int:
        """Concurrent requests. The other connections exist to respond with 503."""
        return self.connections - self.connections // 8

    @property
    def watches(self) -> int:
        """Event streams and waits, which last long. The other connections are for submits, cancels and reads."""
        return self.connections // 2


def find_bounds(open_files: int, connections: int | None) -> Bounds:
    """The limits of a process that may open `open_files` files. `connections` is the limit in the settings, or None.

    Raises SettingsError if `open_files` does not allow as many.
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
