"""SQS by boto3, with the wire on the event loop: boto3 says what is to be asked, reads the answer and knows the errors; what lies
between is `backends.sqs.signing`'s and `backends.sqs.http_calls`'s, and no thread waits there (ADR 0052, 0053).

boto3 blocks where it sends. Here that is in a greenlet: when boto3 comes to make the call (its event `before-call`, by which
anybody may answer in place of the network, as botocore's own Stubber does), the greenlet steps aside until the event loop has the
answer. All that goes on in it is computing; what else could block has its place outside: credentials are refreshed on a thread of
their own, and retries, before which botocore would sleep, are `SqsHttp.persist`'s.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import boto3
import botocore.session
from botocore.awsrequest import AWSResponse
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import ClientError
from greenlet import getcurrent, greenlet

from turnstile.backends.sqs.credentials import CredentialsAside, seek
from turnstile.backends.sqs.http_answer import HttpAnswer
from turnstile.backends.sqs.http_calls import SqsHttp, find_bundle, find_endpoint, names_proxy, refusal
from turnstile.backends.sqs.signing import SqsSigning
from turnstile.backends.sqs.threaded_transport import ThreadedTransport, ask, find_method, make_client, translated
from turnstile.backends.sqs.transport import COMMAND_SECONDS, EXTEND_SECONDS, Answer, Parameters, SqsTransport
from turnstile.config.settings import Settings


def open_boto3(settings: Settings) -> SqsTransport:
    """boto3 on the event loop; on threads where the environment names a proxy, to which only botocore's own HTTP speaks."""
    transport = Boto3Transport(settings)
    if names_proxy(transport.url):
        transport.close()
        return ThreadedTransport(settings)
    return transport


class Boto3Transport:
    """As `backends.sqs.transport.SqsTransport`, for one event loop."""

    def __init__(self, settings: Settings) -> None:
        own = botocore.session.get_session()
        self._credentials = CredentialsAside(seek(own, settings.aws_region))
        session = boto3.session.Session(botocore_session=own)
        # The heartbeat's, which calls from a thread.
        self._blocking = make_client(session, settings, EXTEND_SECONDS, 1, attempts=1)
        self._client = make_client(session, settings, COMMAND_SECONDS, 1, attempts=1)
        self.url = find_endpoint(self._client)
        """Of the endpoint."""
        parsers: Any = own.get_component("response_parser_factory")
        self._parser: Any = parsers.create_parser(self._client.meta.service_model.resolved_protocol)
        self._signing = SqsSigning(self.url, self._client.meta.region_name)
        self._http = SqsHttp(self.url, find_bundle(own), settings)
        # The last of all, also of those that listen to the calls of any service: what they have to add to the request is in it.
        self._client.meta.events.register_last("before-call", self._step_aside)

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
        call = partial(find_method(self._client, operation), **parameters)
        return await self._http.persist(operation, partial(self._ask, credentials, operation, parameters, call))

    def call_blocking(self, operation: str, parameters: Parameters) -> Answer:
        """One call, tried once."""
        return ask(self._blocking, operation, parameters)

    async def _ask(
        self, credentials: ReadOnlyCredentials, operation: str, parameters: Parameters, call: Callable[[], Answer]
    ) -> Answer:
        with translated(), _passing_told():
            asking = greenlet(call)
            said = asking.switch()
            while not asking.dead:
                try:
                    request = self._signing.request(credentials, said["headers"], said["body"])
                    answer = await self._http.exchange(operation, request, parameters)
                except BaseException as error:
                    # boto3 tidies up, and gives it back.
                    said = asking.throw(error)
                else:
                    said = asking.switch(answer)
            return cast("Answer", said)

    # --- in the greenlet

    def _step_aside(self, model: Any, params: dict[str, Any], **_: Any) -> tuple[AWSResponse, Any]:
        """Makes the call, as far as boto3 can tell: the answer, and what it says."""
        loop = cast("greenlet", getcurrent().parent)
        answer: HttpAnswer = loop.switch(params)
        read = {
            "headers": answer.headers,
            "status_code": answer.status,
            "body": answer.body,
            "context": {"operation_name": model.name},
        }
        said = self._parser.parse(read, model.output_shape)
        said["ResponseMetadata"]["RetryAttempts"] = 0
        headers: Any = answer.headers
        return AWSResponse(self.url, answer.status, headers, _Body(answer.body)), said


class _Body:
    """What others read an answer's body from, who listen to the end of calls."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._content


@contextmanager
def _passing_told() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        raise refusal(status, error.response["Error"]["Code"], f"{type(error).__name__}: {error}") from error
