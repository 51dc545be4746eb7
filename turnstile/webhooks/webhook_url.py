"""Where a completion webhook may go: https, a name that the deployment allows, addresses of the public internet. Pure.

A client chooses the address, and our network sends the request: without these rules a turn could send requests to a
metadata service, a database or a neighbour (server-side request forgery). The addresses of the name are checked again for
each try, and the connection goes to an address that was checked (`relay.webhooks.post`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

MAX_URL_CHARACTERS = 2048
HTTPS_PORT = 443
ANY_HOST = "*"
_NOT_A_URL = "must be a URL: https://HOST/PATH, or https://HOST:PORT/PATH with a port from 1 to 65535"

_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"({_LABEL}\.)+[a-z]([a-z0-9-]{{0,61}}[a-z0-9])?")
"""At least two labels, the last of which does not begin with a digit: neither `localhost` nor any spelling of an IPv4 address."""
_RULE = re.compile(rf"(\*|(\*\.)?({_LABEL}\.)+[a-z]([a-z0-9-]{{0,61}}[a-z0-9])?)(:\d{{1,5}})?")

# Not `is_global`, whose results have changed between versions of Python. From the registries of special addresses (RFC 6890
# and its successors).
_REFUSED_V4 = tuple(
    IPv4Network(one)
    for one in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        # Allocated like any other, but Azure's own platform answers there.
        "168.63.129.16/32",
        *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    )
)
_PUBLIC_V6 = IPv6Network("2000::/3")
"""All allocated addresses. Loopback, link-local, unique local, multicast, mapped and translated IPv4 lie outside."""
_REFUSED_V6 = tuple(
    IPv6Network(one) for one in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """An address that has the right form. `path` is the target of the request line, with the query."""

    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        return self.host if self.port == HTTPS_PORT else f"{self.host}:{self.port}"


def parse_webhook_url(url: str) -> WebhookTarget:
    """Parses an address. Raises ValueError, which names the rule and no part of the address: it may contain a token."""
    if len(url) > MAX_URL_CHARACTERS:
        raise ValueError(f"must not be longer than {MAX_URL_CHARACTERS} characters")
    if _PRINTABLE.fullmatch(url) is None or "\\" in url:
        raise ValueError("must be printable ASCII without spaces and backslashes; names in their ASCII form")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(_NOT_A_URL) from None
    if parts.scheme != "https":
        raise ValueError("must begin with https://")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise ValueError("must not have a user or a password")
    if "#" in url:
        raise ValueError("must not have a fragment")
    host = parts.hostname or ""
    if len(host) > 253 or _NAME.fullmatch(host) is None:
        raise ValueError("must name a host by its full domain name (such as hooks.example.com), and not by a number")
    if port == 0:
        raise ValueError(_NOT_A_URL)
    path = parts.path or "/"
    return WebhookTarget(host, port or HTTPS_PORT, f"{path}?{parts.query}" if parts.query else path)


def is_rule(text: str) -> bool:
    """Whether `text` is valid in the list of allowed hosts: `host`, `*.domain` or `*`, each optionally with `:port`."""
    return _RULE.fullmatch(text) is not None


def is_allowed(target: WebhookTarget, rules: Sequence[str]) -> bool:
    """Whether one of the rules allows the target. `*.domain` means all names below it; a rule without a port means 443."""
    return any(_lets_through(target, rule) for rule in rules)


def _lets_through(target: WebhookTarget, rule: str) -> bool:
    name, _, port = rule.lower().partition(":")
    if target.port != int(port or HTTPS_PORT):
        return False
    return name == ANY_HOST or name == target.host or (name.startswith("*.") and target.host.endswith(name[1:]))


def is_public(address: str) -> bool:
    """Whether a resolved address belongs to the public internet. False for a text that is not an address."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    match found:
        case IPv4Address():
            return not any(found in network for network in _REFUSED_V4)
        case IPv6Address():
            return found in _PUBLIC_V6 and not any(found in network for network in _REFUSED_V6)
