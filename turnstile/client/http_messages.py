"""What both shells share: how their HTTP clients are set, and how requests and responses are turned into the core's."""

from collections.abc import Mapping
from typing import TypedDict
from urllib.parse import urlsplit

import httpx2

from turnstile.client.exchange import Answer, Broken, Request
from turnstile.config.validators import LOCAL_HOSTS, check_api_key, check_api_url

OK = 200
EVENTS = "text/event-stream"
CONNECT_SECONDS = 10.0


class HttpSettings(TypedDict):
    """Arguments of httpx2.Client and httpx2.AsyncClient."""

    base_url: str
    headers: dict[str, str]
    limits: httpx2.Limits
    trust_env: bool


def http_settings(base_url: str, api_key: str | None) -> HttpSettings:
    """Raises ValueError for what is no URL of an API, or can't be a key."""
    url = check_api_url(base_url)
    key = check_api_key(api_key)
    return HttpSettings(
        base_url=url,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        # A stream keeps its connection, and a limit would make further calls wait for a turn to end.
        limits=httpx2.Limits(max_connections=None),
        # A proxy of the environment can't reach the loopback of this machine.
        trust_env=urlsplit(url).hostname not in LOCAL_HOSTS,
    )


class RequestArguments(TypedDict):
    """Arguments of `build_request`."""

    method: str
    url: str
    params: Mapping[str, str | float]
    headers: dict[str, str]
    content: bytes | None
    timeout: httpx2.Timeout


def request_arguments(request: Request) -> RequestArguments:
    content_type = {} if request.body is None else {"Content-Type": "application/json"}
    return RequestArguments(
        method=request.method,
        url=request.path,
        params=request.params,
        headers={**content_type, **request.headers},
        content=request.body,
        timeout=httpx2.Timeout(request.silence_seconds, connect=CONNECT_SECONDS),
    )


def has_events(response: httpx2.Response) -> bool:
    """Whether events follow."""
    return response.status_code == OK and response.headers.get("content-type", "").startswith(EVENTS)


def read_response(response: httpx2.Response) -> Answer:
    """A response whose body has been read."""
    return Answer(status=response.status_code, headers=dict(response.headers), body=response.content)


def broken(error: httpx2.HTTPError) -> Broken:
    """What became of a request that raised the error."""
    sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
    return Broken(reason=str(error) or type(error).__name__, sent=sent)
