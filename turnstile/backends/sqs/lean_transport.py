"""SQS without botocore's layers: its JSON protocol over kept-alive HTTP/1.1, on the event loop (ADR 0038).

Of botocore stays what must be right: who we are (its providers of credentials, and their refresh), where SQS is (its rules of
endpoints), whom to trust, and how a request is signed. No thread a call, no model of the API. The MD5 sums of messages are not
looked at, as boto3 does not: TLS and the length of the answer have seen to it that a body is whole.
"""

import json

import boto3
import botocore.session

from turnstile.backends.sqs.credentials import CredentialsAside, seek
from turnstile.backends.sqs.http_answer import HttpAnswer
from turnstile.backends.sqs.http_calls import SqsHttp, find_bundle, find_endpoint, names_proxy, refusal
from turnstile.backends.sqs.signing import SqsSigning
from turnstile.backends.sqs.threaded_transport import ask, make_client
from turnstile.backends.sqs.transport import COMMAND_SECONDS, EXTEND_SECONDS, Answer, Parameters
from turnstile.config.settings import Settings
from turnstile.errors import SettingsError

CONTENT_TYPE = "application/x-amz-json-1.0"


class LeanTransport:
    """As `backends.sqs.transport.SqsTransport`, for one event loop."""

    def __init__(self, settings: Settings) -> None:
        session = botocore.session.get_session()
        self._credentials = CredentialsAside(seek(session, settings.aws_region))
        # The heartbeat's, which calls from a thread and seldom; and it knows where SQS is.
        self._client = make_client(
            boto3.session.Session(botocore_session=session), settings, EXTEND_SECONDS, 1, attempts=1
        )
        url = find_endpoint(self._client)
        if names_proxy(url):
            raise SettingsError("TURNSTILE_SQS_TRANSPORT: lean uses no proxy, and the environment names one for SQS")
        self._signing = SqsSigning(url, self._client.meta.region_name)
        self._http = SqsHttp(url, find_bundle(session), settings)

    def forget_connections(self) -> None:
        """Closes those that lie idle."""
        self._http.close_idle()

    def close(self) -> None:
        """Closes the connections; a poll that is under way is left behind."""
        self._credentials.close()
        self._http.close()

    async def call(self, operation: str, parameters: Parameters) -> Answer:
        """One call. A caller that is cancelled closes its connection: SQS may have done it all the same."""
        credentials = await self._credentials.freeze(COMMAND_SECONDS)
        request = self._signing.request(credentials, _headers(operation), json.dumps(parameters).encode())

        async def ask_once() -> Answer:
            return _read(operation, await self._http.exchange(operation, request, parameters))

        return await self._http.persist(operation, ask_once)

    def call_blocking(self, operation: str, parameters: Parameters) -> Answer:
        """One call, tried once, by boto3."""
        return ask(self._client, operation, parameters)


def _headers(operation: str) -> dict[str, str]:
    # By the last, errors are named as boto3 names them.
    return {
        "content-type": CONTENT_TYPE,
        "user-agent": "Turnstile",
        "x-amz-target": f"AmazonSQS.{operation}",
        "x-amzn-query-mode": "true",
    }


def _read(operation: str, answer: HttpAnswer) -> Answer:
    # Not orjson, which refuses half of a surrogate pair: one message with such a body would make a worker deaf.
    try:
        said = json.loads(answer.body or b"{}")
    except ValueError:
        said = None
    if answer.status in (200, 204) and isinstance(said, dict):
        return said
    told = said if isinstance(said, dict) else {}
    # The header has the code of the older protocol, which boto3 goes by; `__type` that of the newer one, in a namespace.
    code = answer.headers.get("x-amzn-query-error", "").partition(";")[0]
    code = code or str(told.get("__type", answer.status)).partition(":")[0].rpartition("#")[2]
    reason = told.get("message") or told.get("Message") or f"status {answer.status}"
    raise refusal(answer.status, code, f"{operation}: {code}: {reason}")
