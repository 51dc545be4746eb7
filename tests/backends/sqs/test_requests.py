"""Requests are those of boto3: the same address, signature and headers."""

import datetime
from collections.abc import Mapping
from typing import Any

import boto3
import botocore.auth
import botocore.session
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.backends.sqs.asking_sqs import asking
from turnstile.backends.sqs.endpoint import find_endpoint
from turnstile.config.settings import Settings
from turnstile.errors import SettingsError
from turnstile.message_queue import MessageQueues

TIMESTAMP = "%Y%m%dT%H%M%SZ"
SIGNED = ("content-type", "x-amz-target", "x-amzn-query-mode")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("token", [None, "a-token=="])
async def test_a_request_is_signed_as_botocore_signs_it(token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if token is not None:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    async with asking() as (client, sqs):
        await client.call("DeleteMessageBatch", {"QueueUrl": "https://q", "Entries": [{"Id": "ü"}]})

        [request] = sqs.requests
        moment = datetime.datetime.strptime(request.headers["x-amz-date"], TIMESTAMP).replace(tzinfo=datetime.UTC)
        monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: moment)
        headers = {name: request.headers[name] for name in SIGNED}
        theirs = AWSRequest("POST", sqs.address, headers=headers, data=request.body)
        botocore.auth.SigV4Auth(Credentials("AKID", "secret", token), "sqs", "us-east-1").add_auth(theirs)
        assert request.headers["authorization"] == theirs.headers["Authorization"]
        assert request.headers["host"] == sqs.address.removeprefix("http://")
        assert request.line == "POST / HTTP/1.1"


async def test_a_request_has_the_body_and_headers_of_boto3() -> None:
    """Without the headers about retries and about the client."""
    parameters: dict[str, Any] = {"QueueUrl": "https://q", "Entries": [{"Id": "0", "ReceiptHandle": "a b"}]}
    alone: list[Any] = []

    def look(request: Any, **_: Any) -> None:
        alone.append(request)
        raise InterruptedError

    theirs: Any = boto3.session.Session().client("sqs", region_name="us-east-1")
    theirs.meta.events.register("before-send.sqs", look)
    with pytest.raises(InterruptedError):
        theirs.delete_message_batch(**parameters)
    async with asking() as (client, sqs):
        await client.call("DeleteMessageBatch", parameters)

        [request] = sqs.requests
    said = {
        name.lower(): str(value, "latin-1") if isinstance(value, bytes) else value
        for name, value in alone[0].headers.items()
    }
    assert request.body == alone[0].body
    assert {name: request.headers[name] for name in SIGNED} == {name: said[name] for name in SIGNED}


ENDPOINTS: list[tuple[str, str | None, Mapping[str, str]]] = [
    ("cn-north-1", None, {}),
    ("us-east-1", None, {"AWS_USE_DUALSTACK_ENDPOINT": "true"}),
    ("us-gov-west-1", None, {"AWS_USE_FIPS_ENDPOINT": "true"}),
    ("us-east-1", None, {"AWS_ENDPOINT_URL": "https://example.test:8443"}),
    ("us-east-1", "https://vpce-1.sqs.us-east-1.vpce.amazonaws.com", {}),
]


@pytest.mark.parametrize(("region", "url", "environment"), ENDPOINTS)
def test_a_request_goes_to_the_address_of_boto3(
    region: str, url: str | None, environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    asked: list[str] = []

    def look(request: Any, **_: Any) -> None:
        asked.append(request.url)
        raise InterruptedError

    client: Any = boto3.session.Session().client("sqs", region_name=region, endpoint_url=url)
    client.meta.events.register("before-send.sqs", look)
    with pytest.raises(InterruptedError):
        client.list_queues()

    endpoint = find_endpoint(botocore.session.get_session(), region, url)

    assert endpoint.url.rstrip("/") == asked[0].rstrip("/")
    assert (endpoint.tls is not None) == asked[0].startswith("https:")


def test_without_a_region_the_process_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/none")

    with pytest.raises(SettingsError, match="AWS_REGION"):
        MessageQueues(Settings())


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"])
@pytest.mark.parametrize("value", ["notaurl", "http://", "http://[::1"])
def test_an_endpoint_that_is_not_a_url_is_a_settings_error(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_SQS", raising=False)
    monkeypatch.setenv(variable, value)
    monkeypatch.setenv("AWS_REGION", "us-east-1")

    with pytest.raises(SettingsError, match="AWS_ENDPOINT_URL_SQS or AWS_ENDPOINT_URL: not a URL; set http"):
        MessageQueues(Settings())
