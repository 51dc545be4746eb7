"""AWS KMS: opens the data keys that it has sealed. Once at the start of a process, so a call may block."""

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from turnstile.errors import DataKeyRefusedError

TIMEOUT_SECONDS = 3.0
CONTEXT = "turnstile"
"""The name in the encryption context. Its value is the key's id: KMS opens no key under the id of another."""


def open_data_key(region: str | None, key_id: str, sealed: bytes) -> bytes:
    """The data key that KMS has sealed as `sealed`. Raises DataKeyRefusedError."""
    config = Config(connect_timeout=TIMEOUT_SECONDS, read_timeout=TIMEOUT_SECONDS, retries={"total_max_attempts": 3})
    try:
        client: Any = boto3.client("kms", region_name=region, config=config)
        answer = client.decrypt(CiphertextBlob=sealed, EncryptionContext={CONTEXT: key_id})
        return bytes(answer["Plaintext"])
    except ClientError as error:
        # Only the code: the message may name accounts.
        raise DataKeyRefusedError(key_id, error.response["Error"]["Code"]) from None
    except BotoCoreError as error:
        raise DataKeyRefusedError(key_id, type(error).__name__) from None
