"""What is sent to SQS is what boto3 alone would send: to the same place, the same words, signed as botocore signs."""

import datetime
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, ReadOnlyCredentials

from turnstile.backends.sqs.boto3_transport import Boto3Transport
from turnstile.backends.sqs.http_answer import HttpAnswer
from turnstile.backends.sqs.lean_transport import LeanTransport
from turnstile.backends.sqs.signing import SqsSigning
from turnstile.config.load_settings import load
from turnstile.config.settings import Settings
from turnstile.errors import SettingsError
from turnstile.message_queue import MessageQueues

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


def signature_of(request: bytes, url: str, token: str | None, monkeypatch: pytest.MonkeyPatch) -> str:
    """How botocore would sign the headers and the body of this request in the second in which it was made."""
    _, headers, body = parse(request)
    moment = datetime.datetime.strptime(headers["x-amz-date"], TIMESTAMP).replace(tzinfo=datetime.UTC)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: moment)
    signed = {name: headers[name] for name in ("content-type", "x-amz-target", "x-amzn-query-mode")}
    theirs = AWSRequest("POST", url, headers=signed, data=body)
    botocore.auth.SigV4Auth(Credentials("AKID", "secret", token), "sqs", "eu-west-1").add_auth(theirs)
    return str(theirs.headers["Authorization"])


@pytest.mark.parametrize("token", [None, "a-token=="])
@pytest.mark.parametrize(
    "url",
    [
        "https://sqs.eu-west-1.amazonaws.com",
        "http://127.0.0.1:4566",
        "https://proxy.corp/a:b/c",
        "https://proxy.corp//a/./b",
    ],
)
def test_a_request_is_signed_as_botocore_signs_it(url: str, token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"content-type": "application/x-amz-json-1.0", "x-amz-target": "AmazonSQS.Send", "x-amzn-query-mode": "true"}
    request = SqsSigning(url, "eu-west-1").request(
        ReadOnlyCredentials("AKID", "secret", token), told, '{"MessageBody":"ü"}'.encode()
    )

    line, headers, body = parse(request)
    assert headers["authorization"] == signature_of(request, url, token, monkeypatch)
    assert headers["host"] == urlsplit(url).netloc
    assert int(headers["content-length"]) == len(body)
    assert line == f"POST {urlsplit(url).path or '/'} HTTP/1.1"


LAMBDA = {"AWS_LAMBDA_FUNCTION_NAME": "turns", "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793"}


@pytest.mark.parametrize(("token", "environment"), [(None, {}), ("a-token==", {}), (None, LAMBDA)])
async def test_a_request_of_boto3_says_what_boto3_alone_says(
    token: str | None, environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the headers about its own retries, of which there are none."""
    for name, value in {**environment, **({"AWS_SESSION_TOKEN": token} if token else {})}.items():
        monkeypatch.setenv(name, value)
    settings = Settings(aws_region="eu-west-1", sqs_endpoint_url=None)
    parameters: dict[str, Any] = {"QueueUrl": "https://q", "Entries": [{"Id": "0", "ReceiptHandle": "a b"}]}
    alone: list[Any] = []

    def look(request: Any, **_: Any) -> None:
        alone.append(request)
        raise InterruptedError

    client: Any = boto3.session.Session().client("sqs", region_name="eu-west-1")
    client.meta.events.register("before-send.sqs", look)
    with pytest.raises(InterruptedError):
        client.delete_message_batch(**parameters)
    transport, sent = Boto3Transport(settings), []

    async def exchange(_: str, request: bytes, __: Any) -> HttpAnswer:
        sent.append(request)
        return HttpAnswer(200, {}, b"{}", is_last=False)

    monkeypatch.setattr(transport._http, "exchange", exchange)
    await transport.call("DeleteMessageBatch", parameters)
    transport.close()

    line, headers, body = parse(sent[0])
    theirs = {
        name.lower(): str(value, "latin-1") if isinstance(value, bytes) else value
        for name, value in alone[0].headers.items()
    }
    ours_alone = {"host"}
    theirs_alone = {"amz-sdk-invocation-id", "amz-sdk-request"}
    varying = {"authorization", "x-amz-date", "user-agent"}
    assert body == alone[0].body
    assert line == "POST / HTTP/1.1"
    assert headers.keys() - ours_alone == theirs.keys() - theirs_alone
    assert {name: headers[name] for name in theirs.keys() - theirs_alone - varying} == {
        name: theirs[name] for name in theirs.keys() - theirs_alone - varying
    }
    assert headers["authorization"] == signature_of(sent[0], alone[0].url, token, monkeypatch)
    assert "turnstile Boto3/" in headers["user-agent"]


async def test_what_botocore_does_not_sign_is_sent_without_a_signature_and_blanks_are_signed_as_one() -> None:
    told = {"X-Amzn-Trace-Id": "Root=1", "X-Amz-Custom": "two  blanks"}

    request = SqsSigning("https://sqs.test", "eu-west-1").request(
        ReadOnlyCredentials("AKID", "secret", None), told, b""
    )

    _, headers, _ = parse(request)
    assert headers["x-amzn-trace-id"] == "Root=1"
    assert "SignedHeaders=host;x-amz-custom;x-amz-date," in headers["authorization"]
    assert headers["x-amz-custom"] == "two blanks"


@pytest.mark.parametrize("made", [Boto3Transport, LeanTransport])
def test_an_endpoint_with_a_query_is_refused(made: type[Boto3Transport | LeanTransport]) -> None:
    with pytest.raises(SettingsError, match="AWS_ENDPOINT_URL_SQS"):
        made(Settings(aws_region="us-east-1", sqs_endpoint_url="https://gateway.test/sqs?key=1"))


async def test_whoever_listens_to_the_end_of_a_call_finds_an_answer_as_boto3_alone_gives_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transport = Boto3Transport(Settings(aws_region="us-east-1", sqs_endpoint_url="https://sqs.test"))
    heard: list[bytes] = []
    listen: Any = lambda http_response, **_: heard.append(http_response.content)  # noqa: E731
    transport._client.meta.events.register("after-call.sqs", listen)

    async def exchange(*_: Any) -> HttpAnswer:
        return HttpAnswer(200, {"x-amzn-requestid": "r-1"}, b'{"QueueUrls": []}', is_last=False)

    monkeypatch.setattr(transport._http, "exchange", exchange)

    said = await transport.call("ListQueues", {})

    assert heard == [b'{"QueueUrls": []}']
    assert {name: said["ResponseMetadata"][name] for name in ("RequestId", "HTTPStatusCode", "RetryAttempts")} == {
        "RequestId": "r-1",
        "HTTPStatusCode": 200,
        "RetryAttempts": 0,
    }
    transport.close()


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
