"""The SQS endpoint, as boto3's session resolves it: region, URL, and trusted certificate authorities."""

import re
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore.configprovider import ConfigChainFactory
from botocore.httpsession import get_cert_path
from botocore.utils import get_environ_proxies

from turnstile.errors import RegionMissingError, SettingsError

_REGION = re.compile(r"https?://(?:sqs\.([a-z0-9-]+)|([a-z0-9-]+)\.queue)\.amazonaws\.com")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A resolved endpoint. `tls` is None for http; `proxy` comes from the environment."""

    url: str
    region: str
    tls: ssl.SSLContext | None
    proxy: str | None


def find_region(region: str | None) -> str:
    """The region of the queues: `region`, or that of the AWS configuration. Raises RegionMissingError."""
    # Empty counts as unset: botocore would accept it, and then fail with an error about the URL that it makes from it.
    found: str | None = region or boto3.session.Session().region_name
    if not found:
        raise RegionMissingError
    return found


def find_region_of(queue_url: str) -> str | None:
    """The region that the URL of a queue at AWS names; None for any other URL."""
    found = _REGION.match(queue_url)
    return None if found is None else found[1] or found[2]


def find_endpoint(session: botocore.session.Session, region: str | None, endpoint_url: str | None) -> Endpoint:
    """Resolves the endpoint without a network call. Raises RegionMissingError, SettingsError."""
    region = find_region(region)
    # With dummy credentials: otherwise boto3 would search for real ones now, and block.
    nobody = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    client = make_boto3_client(session, region, endpoint_url, **nobody)
    parts = urlsplit(client.meta.endpoint_url)
    url = parts._replace(path=parts.path or "/").geturl()
    tls = _trust(session) if parts.scheme == "https" else None
    return Endpoint(url, region, tls, get_environ_proxies(url).get(parts.scheme))


def make_boto3_client(session: botocore.session.Session, region: str, endpoint_url: str | None, **options: Any) -> Any:
    """boto3's client of SQS. Makes no network call, but searches for credentials if `options` has none. Raises SettingsError."""
    try:
        return boto3.session.Session(botocore_session=session).client(
            "sqs", region_name=region, endpoint_url=endpoint_url, **options
        )
    except ValueError:
        # Not botocore's own words, which quote the value: it may have a password.
        raise SettingsError(
            "AWS_ENDPOINT_URL_SQS or AWS_ENDPOINT_URL: not a URL; set http://HOST:PORT, or unset it"
        ) from None


def _trust(session: botocore.session.Session) -> ssl.SSLContext:
    named: Any = session.get_config_variable("ca_bundle")
    # As botocore does for its own calls.
    named = named or ConfigChainFactory(session).create_config_chain(env_var_names="REQUESTS_CA_BUNDLE").provide()
    try:
        return ssl.create_default_context(cafile=named or get_cert_path(True))
    except OSError as error:
        raise SettingsError(f"AWS_CA_BUNDLE: {error.strerror or error}") from None
