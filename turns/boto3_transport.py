"""SQS by boto3, with the wire on the event loop: boto3 makes and signs the request, reads the answer and knows the errors; what
lies between is `turns.sqs_http`'s, and no thread waits there (ADR 0052).

boto3 blocks where it sends. Here that is in a greenlet: when boto3 comes to send (its event `before-send`, by which anybody may
answer in place of the network), the greenlet steps aside until the event loop has the answer. All that goes on in it is
computing; what else could block has its place outside: credentials are refreshed on a thread of their own and handed in, and
retries, before which botocore would sleep, are `SqsHttp.persist`'s.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

import boto3
import botocore.session
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.exceptions import ClientError
from greenlet import getcurrent, greenlet

from turns.aws_credentials import CredentialsAside, seek
from turns.http_answer import HttpAnswer
from turns.settings import Settings
from turns.sqs_http import SqsHttp, find_bundle, find_endpoint, names_proxy, refusal
from turns.sqs_transport import COMMAND_SECONDS, EXTEND_SECONDS, Answer, Parameters, SqsTransport
from turns.threaded_transport import ThreadedTransport, ask, find_method, make_client, translated

USUAL_PORTS = {"http": 80, "https": 443}


def open_boto3(settings: Settings) -> SqsTransport:
    """boto3 on the event loop; on threads where the environment names a proxy, to which only botocore's own HTTP speaks."""
    transport = Boto3Transport(settings)
    if names_proxy(transport.url):
        transport.close()
        return ThreadedTransport(settings)
    return transport


class Boto3Transport:
    """As `turns.sqs_transport.SqsTransport`, for one event loop."""

    def __init__(self, settings: Settings) -> None:
        own = botocore.session.get_session()
        self._credentials = CredentialsAside(seek(own, settings.aws_region))
        # The heartbeat's, which calls from a thread.
        self._blocking = _client(own, settings, EXTEND_SECONDS)
        self._handed = _HandedCredentials()
        self._client = _client(_signing_with(self._handed, own), settings, COMMAND_SECONDS)
        self._client.meta.events.register("before-send.sqs", _step_aside)
        self.url = find_endpoint(self._client)
        """Of the endpoint."""
        self._http = SqsHttp(self.url, find_bundle(own), settings)

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
        return await self._http.persist(operation, partial(self._ask, credentials, operation, call))

    def call_blocking(self, operation: str, parameters: Parameters) -> Answer:
        """One call, tried once."""
        return ask(self._blocking, operation, parameters)

    async def _ask(self, credentials: ReadOnlyCredentials, operation: str, call: Callable[[], Answer]) -> Answer:
        with translated(), _passing_told():
            # It is signed before it first steps aside, so that nobody comes between.
            self._handed.present = credentials
            asking = greenlet(call)
            said = asking.switch()
            while not asking.dead:
                try:
                    answer = await self._http.exchange(operation, _written(said))
                except BaseException as error:
                    # boto3 tidies up, and gives it back.
                    said = asking.throw(error)
                else:
                    said = asking.switch(_as_botocore_reads_it(said, answer))
            return cast("Answer", said)


class _HandedCredentials(Credentials):
    """What the next request is signed with. botocore's own would ask a server here, on the event loop."""

    def __init__(self) -> None:
        super().__init__("", "", method="turnstile")
        self.present = ReadOnlyCredentials("", "", None)

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        return self.present


def _signing_with(credentials: Credentials, like: botocore.session.Session) -> botocore.session.Session:
    session = botocore.session.get_session()
    # What botocore has read to build one client is not read again.
    session.register_component("data_loader", like.get_component("data_loader"))
    session.register_component("credential_provider", _Provider(credentials))
    return session


class _Provider:
    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def load_credentials(self) -> Credentials:
        return self._credentials


def _client(session: botocore.session.Session, settings: Settings, read_timeout: float) -> Any:
    return make_client(boto3.session.Session(botocore_session=session), settings, read_timeout, 1, attempts=1)


# --- in the greenlet


def _step_aside(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
    """Sends it, as far as boto3 can tell."""
    loop = cast("greenlet", getcurrent().parent)
    answer: AWSResponse = loop.switch(request)
    return answer


# --- on the wire


def _written(request: AWSPreparedRequest) -> bytes:
    parts = urlsplit(request.url)
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {_signed_host(parts)}"]
    lines += [f"{name}: {_text(value)}" for name, value in request.headers.items()]
    # Of SQS's JSON protocol, so it is never a file.
    body = cast("bytes | None", request.body)
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def _signed_host(parts: SplitResult) -> str:
    # As botocore signs it, which leaves it to its own HTTP to send it so.
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return host if parts.port in (None, USUAL_PORTS.get(parts.scheme)) else f"{host}:{parts.port}"


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


class _Body:
    """What botocore reads an answer's body from."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._content


def _as_botocore_reads_it(request: AWSPreparedRequest, answer: HttpAnswer) -> AWSResponse:
    headers: Any = answer.headers
    return AWSResponse(request.url, answer.status, headers, _Body(answer.body))


@contextmanager
def _passing_told() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        raise refusal(status, error.response["Error"]["Code"], f"{type(error).__name__}: {error}") from error
