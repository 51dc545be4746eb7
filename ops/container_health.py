"""Whether the process of this container is alive: the health check of the image, and on ECS.

python -I -m turnstile.ops.container_health api=8080 worker=8081
python -I -m turnstile.ops.container_health 8081

Each argument says on which port a command answers /healthz. Which command runs here is read off the container's first
process; one that answers nowhere, like the relay, is well as long as it runs. A port alone is asked in any case, by those who
know what they run: another engine's first process may not say it. Standard library only, because it is started anew for each
check; -I, because the folder of the handler may have modules of the same names; no urllib, which asks proxies.
"""

import http.client
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PATIENCE_SECONDS = 4.0
FIRST_PROCESS = Path("/proc/1/cmdline")


def choose_port(command_line: Sequence[str], ports: Mapping[str, str]) -> int | None:
    """Where to ask: at the port of the first command that the line names. None if it names none, or one without a port."""
    for word in command_line:
        if word in ports:
            return int(ports[word]) if ports[word] else None
    return None


def is_live(port: int) -> bool:
    """Whether /healthz on this port says so within four seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def main(arguments: Sequence[str]) -> int:
    """0: it is well. 1: it is not. Any other code has no meaning to an engine."""
    if len(arguments) == 1 and arguments[0].isdecimal():
        port: int | None = int(arguments[0])
    else:
        ports = {name: port for name, _, port in (argument.partition("=") for argument in arguments)}
        port = choose_port(FIRST_PROCESS.read_text().split("\0"), ports)
    return 0 if port is None or is_live(port) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
