"""What the lean transport sends is what boto3 would send: to the same place, signed as botocore signs."""

import datetime
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, ReadOnlyCredentials

from turns.boto3_transport import Boto3Transport
from turns.errors import SettingsError
from turns.lean_transport import LeanTransport, _Signing
from turns.message_queue import MessageQueues
from turns.settings import Settings, load

TIMESTAMP = "%Y%m%dT%H%M%SZ"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


def parse(request: bytes) -> tuple[str, dict[str, str], bytes]:
    head, _, body = request.partition(b"\r\n\r\n")
    line, *lines = head.decode().split("\r\n")
    return line, {name: value.strip() for name, _, value in (each.partition(":") for each in lines)}, body


@pytest.mark.parametrize("token", [None, "a-token=="])
@pytest.mark.parametrize(
    "url", ["https://sqs.eu-west-1.amazonaws.com", "http://127.0.0.1:4566", "https://proxy.corp/a:b/c"]
)
def test_a_request_is_signed_as_botocore_signs_it(url: str, token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    request = _Signing(url, "eu-west-1").request(
        ReadOnlyCredentials("AKID", "secret", token), "SendMessageBatch", '{"MessageBody":"ü"}'.encode()
    )

    line, headers, body = parse(request)
    moment = datetime.datetime.strptime(headers["x-amz-date"], TIMESTAMP).replace(tzinfo=datetime.UTC)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: moment)
    signed = {name: headers[name] for name in ("content-type", "x-amz-target", "x-amzn-query-mode")}
    theirs = AWSRequest("POST", url, headers=signed, data=body)
    botocore.auth.SigV4Auth(Credentials("AKID", "secret", token), "sqs", "eu-west-1").add_auth(theirs)
    assert headers["authorization"] == theirs.headers["Authorization"]
    assert headers["host"] == urlsplit(url).netloc
    assert int(headers["content-length"]) == len(body)
    assert line == f"POST {urlsplit(url).path or '/'} HTTP/1.1"


ENDPOINTS: list[tuple[str, str | None, Mapping[str, str]]] = [
    ("eu-central-1", None, {}),
    ("cn-north-1", None, {}),
    ("us-gov-west-1", None, {"AWS_USE_FIPS_ENDPOINT": "true"}),
    ("us-east-1", None, {"AWS_USE_FIPS_ENDPOINT": "true"}),
    ("us-east-1", None, {"AWS_USE_DUALSTACK_ENDPOINT": "true"}),
    ("us-iso-east-1", None, {"AWS_USE_FIPS_ENDPOINT": "true"}),
    ("us-east-1", None, {"AWS_ENDPOINT_URL": "https://example.test:8443"}),
    ("us-east-1", "https://vpce-1.sqs.us-east-1.vpce.amazonaws.com", {}),
]


@pytest.mark.parametrize("made", [Boto3Transport, LeanTransport])
@pytest.mark.parametrize(("region", "endpoint", "environment"), ENDPOINTS)
def test_a_request_goes_where_boto3_sends_it(
    region: str,
    endpoint: str | None,
    environment: Mapping[str, str],
    made: type[Boto3Transport | LeanTransport],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    asked: list[str] = []

    def look(request: Any, **_: Any) -> None:
        asked.append(request.url)
        raise InterruptedError

    client: Any = boto3.session.Session().client("sqs", region_name=region, endpoint_url=endpoint)
    client.meta.events.register("before-send.sqs", look)
    with pytest.raises(InterruptedError):
        client.list_queues()

    transport = made(Settings(aws_region=region, sqs_endpoint_url=endpoint))

    there = urlsplit(asked[0])
    assert (transport._http._host, transport._http._port) == (there.hostname, there.port or 443)
    assert (transport._http._tls is not None) == (there.scheme == "https")


def test_a_proxy_of_the_environment_is_refused_and_not_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.corp:3128")

    with pytest.raises(SettingsError, match="TURNSTILE_SQS_TRANSPORT"):
        MessageQueues(Settings(aws_region="us-east-1", sqs_transport="lean"))


def test_without_a_region_the_process_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/none")

    with pytest.raises(SettingsError, match="AWS_REGION"):
        MessageQueues(Settings(sqs_transport="lean"))


def test_a_transport_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_SQS_TRANSPORT", "pigeon")

    with pytest.raises(SettingsError, match=r"TURNSTILE_SQS_TRANSPORT: .*'boto3' or 'lean'"):
        load()
