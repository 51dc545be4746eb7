"""Where SQS is, as boto3's session knows it: the region, the endpoint, and the authorities to trust."""

import ssl
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore.configprovider import ConfigChainFactory
from botocore.httpsession import get_cert_path
from botocore.utils import get_environ_proxies

from turnstile.errors import RegionMissingError, SettingsError


@dataclass(frozen=True, slots=True)
class SqsOptions:
    """What a process says of it. The AWS configuration completes it."""

    region: str | None = None
    endpoint_url: str | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`tls` is None for http. `proxy` is that of the environment."""

    url: str
    region: str
    tls: ssl.SSLContext | None
    proxy: str | None


def find_region(options: SqsOptions) -> str:
    """Raises RegionMissingError."""
    # Empty is as good as unset: botocore would take it, and complain of the address that it makes of it.
    region: str | None = options.region or boto3.session.Session().region_name
    if not region:
        raise RegionMissingError
    return region


def find_endpoint(session: botocore.session.Session, options: SqsOptions) -> Endpoint:
    """Asks no server. Raises RegionMissingError, SettingsError."""
    region = find_region(options)
    # With a pair of its own: else it would look for credentials now, and block.
    client = boto3.session.Session(botocore_session=session).client(
        "sqs",
        region_name=region,
        endpoint_url=options.endpoint_url,
        aws_access_key_id="none",
        aws_secret_access_key="none",  # noqa: S106 - it signs nothing
    )
    url = _find_url(client)
    scheme = urlsplit(url).scheme
    tls = _trust(session) if scheme == "https" else None
    return Endpoint(url, region, tls, get_environ_proxies(url).get(scheme))


def _find_url(client: Any) -> str:
    # Not always what the client's `meta` says: FIPS in some partitions.
    urls: list[str] = []

    def look(params: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]]:
        # Answered in the network's place: nothing is sent.
        urls.append(params["url"])
        return SimpleNamespace(status_code=200), {}

    client.meta.events.register("before-call.sqs.ListQueues", look)
    client.list_queues()
    return urls[0]


def _trust(session: botocore.session.Session) -> ssl.SSLContext:
    named: Any = session.get_config_variable("ca_bundle")
    named = named or ConfigChainFactory(session).create_config_chain(env_var_names="REQUESTS_CA_BUNDLE").provide()
    try:
        return ssl.create_default_context(cafile=named or get_cert_path(True))
    except OSError as error:
        raise SettingsError(f"AWS_CA_BUNDLE: {error.strerror or error}") from None
