"""Parses a Redis URL: one server, a primary behind sentinels, or the nodes of a cluster; with or without TLS. Pure.

    redis://user:password@host:6379/0                rediss://host:6380/0?ssl_ca_certs=/etc/ca.pem
    redis+sentinel://host:26379,host:26379/name/0    rediss+sentinel://...     TLS to the sentinels and to Redis
    redis+cluster://host:6379,host:6379              rediss+cluster://...      any of the nodes; they know the others

TLS without a check of the certificate and its host name does not stop an attacker in between, so no option turns the check off
(ADR 0028). Use `redis://` if you need no TLS, and name a self-signed certificate in `ssl_ca_certs`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

PORT = 6379
SENTINEL_PORT = 26379

TLS_OPTIONS = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
"""Paths of PEM files: the authorities to trust instead of the system's; the client's certificate; its key."""
SENTINEL_OPTIONS = frozenset({"sentinel_username", "sentinel_password"})
_ALWAYS = {"ssl_cert_reqs": {"required"}, "ssl_check_hostname": {"true", "yes", "y", "1"}}
"""The allowed values of the options for the checks: those that keep a check on."""

_NOT_A_URL = (
    "is not a Redis URL: set redis://HOST:6379/0, rediss:// for TLS, "
    "redis+sentinel://HOST:26379/NAME or redis+cluster://HOST:6379"
)

Address = tuple[str, int]


class RedisKind(StrEnum):
    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


_SCHEMES = {
    f"{scheme}{suffix}": (kind, scheme == "rediss")
    for scheme in ("redis", "rediss")
    for suffix, kind in (("", RedisKind.SINGLE), ("+sentinel", RedisKind.SENTINEL), ("+cluster", RedisKind.CLUSTER))
} | {"unix": (RedisKind.SINGLE, False)}


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """A parsed URL. `options` has TLS options and credentials, under redis-py's names."""

    kind: RedisKind
    tls: bool
    addresses: tuple[Address, ...] = ()
    """The sentinels, or some nodes of the cluster; empty for a single server, whose URL redis-py parses itself."""
    service: str = ""
    """The sentinels' name for the primary."""
    options: Mapping[str, str | int] = field(default_factory=dict, repr=False)
    sentinel_options: Mapping[str, str | int] = field(default_factory=dict, repr=False)
    files: tuple[str, ...] = ()
    """Paths of the TLS files that the URL names."""


def read(url: str) -> RedisUrl:
    """Parses a URL. The message of its ValueError never quotes a value from the URL, which may contain a password."""
    try:
        parts = _split(url)
    except ValueError:
        raise ValueError(_NOT_A_URL) from None
    if parts.scheme not in _SCHEMES or "://" not in url:
        raise ValueError(_NOT_A_URL)
    kind, tls = _SCHEMES[parts.scheme]
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    _check_tls(query, tls)
    files = tuple(value for name, value in query.items() if name in TLS_OPTIONS)
    if kind is RedisKind.SINGLE:
        # redis-py takes any other path for database 0.
        if parts.scheme != "unix" and not re.fullmatch("/?[0-9]*", parts.path):
            raise ValueError("must end with the number of a database, as redis://HOST:6379/0")
        return RedisUrl(kind, tls, files=files)
    if (
        unknown := query.keys()
        - TLS_OPTIONS
        - _ALWAYS.keys()
        - (SENTINEL_OPTIONS if kind is RedisKind.SENTINEL else frozenset())
    ):
        # If a misspelt ssl_ca_certs were ignored, the client would silently trust the system's authorities.
        raise ValueError(f"has unknown options: {', '.join(sorted(unknown))}; correct or remove them")
    secure: dict[str, str | int] = {name: value for name, value in query.items() if name in TLS_OPTIONS}
    service, database = _read_path(kind, parts.path)
    return RedisUrl(
        kind,
        tls,
        _read_addresses(parts, SENTINEL_PORT if kind is RedisKind.SENTINEL else PORT),
        service,
        {**secure, **_credentials(parts), **({"db": database} if kind is RedisKind.SENTINEL else {})},
        {**secure, **{name.removeprefix("sentinel_"): query[name] for name in SENTINEL_OPTIONS & query.keys()}},
        files,
    )


def _split(url: str) -> SplitResult:
    scheme, mark, rest = url.partition("://")
    kind, _ = _SCHEMES.get(scheme.lower(), (RedisKind.SINGLE, False))
    if kind is RedisKind.SINGLE:
        parts = urlsplit(url)
        # `urlsplit` checks the port only when it is read.
        if parts.port == 0:
            raise ValueError("port 0")
        return parts
    # Without the hosts: newer Pythons refuse the URL if one of several hosts is in brackets.
    hosts = re.split("[/?#]", rest, maxsplit=1)[0]
    return urlsplit(f"{scheme}{mark}{rest[len(hosts) :]}")._replace(netloc=hosts)


def _check_tls(query: Mapping[str, str], tls: bool) -> None:
    for name, allowed in _ALWAYS.items():
        if query.get(name, "required" if name == "ssl_cert_reqs" else "true").lower() not in allowed:
            raise ValueError(
                f"must not turn off {name}: name the authority in ssl_ca_certs, or say redis:// for no TLS"
            )
    if not tls and any(name.startswith("ssl_") for name in query):
        raise ValueError("has options of TLS without TLS: rediss:// is the scheme for it")


def _read_addresses(parts: SplitResult, port: int) -> tuple[Address, ...]:
    addresses = []
    for given in parts.netloc.rpartition("@")[2].split(","):
        try:
            one = urlsplit(f"//{given}")
            host, number = one.hostname, port if one.port is None else one.port
        except ValueError:
            host, number = None, 0
        if not host or not number:
            raise ValueError("must name host:port, separated by commas")
        addresses.append((host, number))
    return tuple(addresses)


def _read_path(kind: RedisKind, path: str) -> tuple[str, int]:
    service, _, database = path.strip("/").partition("/")
    if kind is RedisKind.CLUSTER:
        if (service, database) not in {("", ""), ("0", "")}:
            raise ValueError("names a database, but a cluster has only one: leave out the number")
        return "", 0
    if not service or not (database or "0").isascii() or not (database or "0").isdigit():
        raise ValueError("must end with the primary's name among the sentinels, and perhaps a database: /mymaster/0")
    return unquote(service), int(database or 0)


def _credentials(parts: SplitResult) -> dict[str, str]:
    given, at, _ = parts.netloc.rpartition("@")
    username, _, password = given.partition(":")
    found = {"username": unquote(username), "password": unquote(password)} if at else {}
    return {name: value for name, value in found.items() if value}
