"""Validators of single settings. No message quotes a value, because it may contain a password.

Each takes a value and returns it, or raises ValueError, as pydantic expects.
"""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from turnstile.backends.redis.redis_url import read as read_redis_url
from turnstile.turn.identifiers import ID_RULE, is_valid_id
from turnstile.webhooks.signature import read_secret
from turnstile.webhooks.webhook_url import is_rule

LOCAL_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
MIN_API_KEY_CHARACTERS = 8

_SCHEMA = re.compile(r"(?!pg_|information_schema$)[a-z_][a-z0-9_]{0,62}")


def check_database_url(url: str) -> str:
    """Accepts any URL that libpq accepts, also with SQLAlchemy's name for the driver."""
    # Imported here, so that commands without a database load the driver as late as possible.
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    from turnstile.backends.postgres.place import DatabasePlace

    try:
        given = conninfo_to_dict(DatabasePlace(url).libpq_url)
    except (Error, ValueError):
        given = {}
    ports = str(given.get("port") or "").split(",")
    # An @ of the password that is not escaped ends up in the host, and in the error of each attempt to connect. At its start it
    # names an abstract socket.
    hosts_fit = not any("@" in host[1:] for host in str(given.get("host") or "").split(","))
    if not given or not hosts_fit or not all(port.isascii() and (not port or port.isdigit()) for port in ports):
        raise ValueError(
            "must be postgresql://USER:PASSWORD@HOST:5432/NAME, with % @ : / of the password as %25 %40 %3A %2F"
        )
    return url


def find_heartbeat_conflicts(heartbeat: float, watchdog: float, lease: float) -> list[str]:
    """Conflicts between these three times in seconds: one sentence for each."""
    beat = f"a heartbeat ({heartbeat:g} s: TURNSTILE_HEARTBEAT_SECONDS, or a third of TURNSTILE_LEASE_SECONDS)"
    faults = []
    if not heartbeat < lease:
        faults.append(f"TURNSTILE_LEASE_SECONDS ({lease:g}) must be longer than {beat}")
    if not watchdog > 2 * heartbeat:
        faults.append(f"TURNSTILE_WATCHDOG_SECONDS ({watchdog:g}) must be more than twice as long as {beat}")
    return faults


def check_database_schema(name: str) -> str:
    """Accepts a plain lower-case name: a search path folds others, or reads them as several."""
    if not _SCHEMA.fullmatch(name):
        raise ValueError(
            "must be 1 to 63 of a-z 0-9 _, and must not begin with a digit; names that begin with pg_, and "
            "information_schema, are Postgres's own"
        )
    return name


def check_redis_url(url: str | None) -> str | None:
    """Accepts the forms of `backends.redis.redis_url`; the files that the URL names must exist."""
    if url is None:
        return None
    if not all(Path(file).is_file() for file in read_redis_url(url).files):
        raise ValueError("names a certificate or key file that does not exist")
    return url


def check_operator(name: str) -> str:
    """Accepts what a line of a table and of a log can show."""
    if not name.isprintable():
        raise ValueError("must not contain line breaks or control characters")
    return name.strip()


def check_agent_uri(uri: str | None) -> str | None:
    """Accepts an http URL, with or without a port; removes a trailing slash. Empty becomes None."""
    if uri is None or not uri:
        return None
    try:
        parts = urlsplit(uri)
        fits = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise ValueError("must be an http URL, such as http://HOST:PORT")
    return uri.rstrip("/")


def check_api_url(url: str) -> str:
    """Accepts an http or https URL, with or without a port and a path."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise ValueError("must be http://HOST or https://HOST, optionally with :PORT")
    return url


def check_api_key(key: str | None) -> str | None:
    """Accepts printable ASCII, which a header can carry."""
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ValueError("must be printable ASCII, because a header carries it")
    return key


def parse_api_keys(value: Any) -> Any:
    """Parses `tenant:key,tenant:key` into pairs; returns a value that is not a string unchanged."""
    if not isinstance(value, str):
        return value
    pairs = [pair.strip().partition(":") for pair in value.split(",") if pair.strip()]
    if any(not tenant or len(key) < MIN_API_KEY_CHARACTERS for tenant, _, key in pairs):
        raise ValueError("must be tenant:key pairs separated by commas, each key of 8 characters or more")
    return tuple((tenant, key) for tenant, _, key in pairs)


def check_api_keys(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Accepts pairs with valid tenants and unique keys."""
    if not all(is_valid_id(tenant) for tenant, _ in pairs):
        raise ValueError(f"each tenant must be {ID_RULE}")
    if len({key for _, key in pairs}) != len(pairs):
        raise ValueError("each key may appear only once")
    return pairs


def parse_json_list(value: Any) -> Any:
    """Parses a JSON list; returns a value that is not a string unchanged. Empty becomes an empty list."""
    return (json.loads(value) if value.strip() else []) if isinstance(value, str) else value


def parse_queues(value: Any) -> Any:
    """Parses a JSON list of at least one queue."""
    parsed = parse_json_list(value)
    # The default, an empty tuple, means that the file declares the queues.
    if parsed == []:
        raise ValueError("is empty: remove it, or declare at least one queue")
    return parsed


def check_queue(name: str) -> str:
    """Accepts the name of a queue."""
    if not is_valid_id(name):
        raise ValueError("is empty" if not name else f"must be {ID_RULE}")
    return name


def parse_list(value: Any) -> Any:
    """Parses `a,b` into a tuple; returns a value that is not a string unchanged."""
    return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value


def check_origins(origins: tuple[str, ...]) -> tuple[str, ...]:
    """Accepts origins as browsers send them: https, or http at the loopback; no path, no wildcard."""
    for origin in origins:
        try:
            parts = urlsplit(origin)
            local = parts.scheme == "http" and parts.hostname in LOCAL_HOSTS
            fits = parts.port != 0 and bool(parts.hostname) and (parts.scheme == "https" or local)
        except ValueError:
            fits = False
        if not fits or origin != f"{parts.scheme}://{parts.netloc}".lower() or "@" in origin or "*" in origin:
            raise ValueError(
                "must be https://HOST, optionally with :PORT, in lower case and without a path, separated by commas"
            )
    return origins


def check_webhook_hosts(rules: tuple[str, ...]) -> tuple[str, ...]:
    """Accepts valid host rules for completion webhooks; returns them in lower case."""
    if not all(is_rule(rule.lower()) for rule in rules):
        raise ValueError("must be host, *.domain or *, each optionally with :port, separated by commas")
    return tuple(rule.lower() for rule in rules)


def check_webhook_secrets(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """Accepts secrets that can sign a webhook."""
    for secret in secrets:
        read_secret(secret)
    return secrets
