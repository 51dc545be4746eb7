"""SQS by boto3 alone, which blocks: each call runs on a thread, long polls on one pool and commands on another, or six polls
would starve every delete. For those behind a proxy; everybody else has `backends.sqs.boto3_transport`, at half of its CPU.

Retries are set on purpose (botocore's own default changes between releases, and a retried receive would sleep in the polling
thread): one quick retry for commands, none for polls; the longer back-off belongs to the caller's loop.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import boto3
import botocore
import botocore.session
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import ClientError

from turnstile.backends.sqs.credentials import seek
from turnstile.backends.sqs.transport import (
    BESIDE,
    COMMAND_SECONDS,
    CONNECT_SECONDS,
    EXTEND_SECONDS,
    POLL,
    POLL_SLACK_SECONDS,
    Answer,
    CallRefusedError,
    Parameters,
)
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, RegionMissingError

COMMAND_THREADS = 8
USER_AGENT = f"turnstile Boto3/{boto3.__version__} Botocore/{botocore.__version__}"


class ThreadedTransport:
    """As `backends.sqs.transport.SqsTransport`."""

    def __init__(self, settings: Settings) -> None:
        self._polls = ThreadPoolExecutor(settings.pollers + BESIDE, "sqs-poll")
        self._commands = ThreadPoolExecutor(COMMAND_THREADS, "sqs-command")
        # One session: what botocore reads to build a client is read once.
        own = botocore.session.get_session()
        seek(own, settings.aws_region)
        session = boto3.session.Session(botocore_session=own)
        poll_seconds = settings.receive_wait_seconds + POLL_SLACK_SECONDS
        self._receive_client = make_client(session, settings, poll_seconds, settings.pollers + BESIDE, attempts=1)
        self._client = make_client(session, settings, COMMAND_SECONDS, COMMAND_THREADS + 2, attempts=2)
        self._extend_client = make_client(session, settings, EXTEND_SECONDS, 1, attempts=1)

    def forget_connections(self) -> None:
        """urllib3 looks at each before it uses it, and keeps them."""

    def close(self) -> None:
        """Lets go of the threads; a long poll that is under way is left behind."""
        self._polls.shutdown(wait=False, cancel_futures=True)
        self._commands.shutdown(wait=False, cancel_futures=True)

    async def call(self, operation: str, parameters: Parameters) -> Answer:
        """One call. A caller that is cancelled leaves it running."""
        poll = operation == POLL
        client, threads = (self._receive_client, self._polls) if poll else (self._client, self._commands)
        call = partial(find_method(client, operation), **parameters)
        with translated():
            return await asyncio.get_running_loop().run_in_executor(threads, call)

    def call_blocking(self, operation: str, parameters: Parameters) -> Answer:
        """One call, tried once."""
        return ask(self._extend_client, operation, parameters)


def make_client(
    session: boto3.session.Session, settings: Settings, read_timeout: float, connections: int, *, attempts: int
) -> Any:
    """A client of boto3's. Raises RegionMissingError."""
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_timeout,
        max_pool_connections=connections,
        retries={"total_max_attempts": attempts, "mode": "standard"},
        tcp_keepalive=True,
        # Ours are right, and SQS looks for itself; botocore would go through each message of each batch in Python.
        parameter_validation=False,
        # Ready made: botocore would put the words about itself together anew for every call.
        user_agent=USER_AGENT,
    )
    region = _region(session, settings)
    return session.client("sqs", region_name=region, endpoint_url=settings.sqs_endpoint_url, config=config)


def check_region(settings: Settings) -> None:
    """Raises RegionMissingError where a client could not be made, without making one."""
    _region(boto3.session.Session(), settings)


def _region(session: boto3.session.Session, settings: Settings) -> str:
    # Empty is as good as unset: botocore would take it, and complain of the address that it makes of it.
    region: str | None = settings.aws_region or session.region_name
    if not region:
        raise RegionMissingError
    return region


def ask(client: Any, operation: str, parameters: Parameters) -> Answer:
    """One call of a client, which blocks; raises as `backends.sqs.transport.SqsTransport` does."""
    method = find_method(client, operation)
    with translated():
        return method(**parameters)


def find_method(client: Any, operation: str) -> Callable[..., Answer]:
    """The client's way to call an operation."""
    found: Callable[..., Answer] = getattr(client, xform_name(operation))
    return found


@contextmanager
def translated() -> Iterator[None]:
    """Tells botocore's errors as `backends.sqs.transport` has them."""
    try:
        yield
    except ClientError as error:
        raise CallRefusedError(error.response["Error"]["Code"], f"{type(error).__name__}: {error}") from error
    except QueueUnavailableError:
        raise
    except Exception as error:
        # Not only BotoCoreError: botocore reads whatever is answered, and where that is no word of SQS's (a proxy's page, a list,
        # bytes that are no text), it breaks off anywhere.
        raise QueueUnavailableError(f"{type(error).__name__}: {error}") from error
