"""Without keys, only programs of this machine may use the API, and no page of a website that a browser of this machine shows.

A page can send a POST to any address, and by another name for the loopback address (DNS rebinding) it can also read the answers.
A browser says in `Host` by which name it calls, and in `Origin` for which page.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

from turnstile.config.validators import LOCAL_HOSTS
from turnstile.producer.http.problems import Kind, ProblemError


def is_of_this_machine(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether a request calls the API by a name of the loopback address, and is of no other website."""
    hosts = [f"//{value.decode('latin-1')}" for name, value in headers if name == b"host"]
    origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
    return len(hosts) == 1 and all(map(_names_this_machine, hosts + origins))


def refuse_other_sites(headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Raises the 421 for a request by another name than the loopback's, and for a request of another website."""
    if not is_of_this_machine(headers):
        detail = "this API has no keys, so it serves only 127.0.0.1 and localhost; make one: `turnstile key create`"
        raise ProblemError(Kind.NOT_LOCAL, detail)


def _names_this_machine(url: str) -> bool:
    try:
        return urlsplit(url).hostname in LOCAL_HOSTS
    except ValueError:
        return False
