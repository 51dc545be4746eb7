"""Health check of the image and on ECS: whether the process of this container is alive.

python -I -m turnstile.ops.container_health api=8080 worker=8081
python -I -m turnstile.ops.container_health 8081

Each argument names a command and its /healthz port. The command line of the container's first process shows which command runs
here. A command without a port, such as the relay, is healthy while it runs. A port alone is always checked; use it if the first
process does not name the command, as with some container engines.

Standard library only, because each check starts a new process. -I, because the handler's folder may have modules with the same
names. No urllib, because it uses proxies.
"""

import http.client
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PATIENCE_SECONDS = 4.0
FIRST_PROCESS = Path("/proc/1/cmdline")


def choose_port(command_line: Sequence[str], ports: Mapping[str, str]) -> int | None:
    """The port of the first known command in the command line. None if there is none, or it has no port."""
    for word in command_line:
        if word in ports:
            return int(ports[word]) if ports[word] else None
    return None


def is_live(port: int, path: str = "/healthz") -> bool:
    """Whether the process on this loopback port responds with 200 in time. PATIENCE_SECONDS limits each socket operation."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def main(arguments: Sequence[str]) -> int:
    """Returns 0 for healthy, 1 for unhealthy. Container engines define no other codes."""
    if len(arguments) == 1 and arguments[0].isdecimal():
        port: int | None = int(arguments[0])
    else:
        ports = {name: port for name, _, port in (argument.partition("=") for argument in arguments)}
        port = choose_port(FIRST_PROCESS.read_text().split("\0"), ports)
    return 0 if port is None or is_live(port) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
