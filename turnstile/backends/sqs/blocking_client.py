"""boto3's client of SQS, for commands whose calls may block."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from turnstile.backends.sqs.endpoint import find_region, make_boto3_client
from turnstile.backends.sqs.sqs_client import COMMAND_SECONDS, CONNECT_SECONDS
from turnstile.errors import CredentialsMissingError, QueueUnavailableError


@contextmanager
def blocking_client(region: str | None, endpoint_url: str | None) -> Iterator[Any]:
    """The client, until the block ends. The AWS configuration fills in what is None.

    Raises RegionMissingError, SettingsError; from its calls QueueUnavailableError and CredentialsMissingError.
    """
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=COMMAND_SECONDS,
        retries={"total_max_attempts": 2, "mode": "standard"},
    )
    client = make_boto3_client(botocore.session.get_session(), find_region(region), endpoint_url, config=config)
    try:
        yield client
    except NoCredentialsError:
        raise CredentialsMissingError from None
    except ClientError as error:
        refusal = error.response["Error"]
        raise QueueUnavailableError(f"{error.operation_name}: {refusal['Code']}: {refusal['Message']}") from error
    except BotoCoreError as error:
        # Not botocore's own words, which quote the URL: it may have a password.
        server = urlsplit(client.meta.endpoint_url)
        raise QueueUnavailableError(f"{server.hostname} port {server.port}: {type(error).__name__}") from error
    finally:
        client.close()
