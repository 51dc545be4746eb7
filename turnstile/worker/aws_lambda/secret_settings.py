"""Reads settings from Secrets Manager, for a Lambda function, into which nothing injects them (ADR 0027).

ECS puts secrets into the environment, so this module is not used there.
"""

import json
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from turnstile.config.settings import Settings
from turnstile.errors import SettingsError

TIMEOUT_SECONDS = 3.0


def read_secrets(settings: Settings) -> dict[str, Any]:
    """The secret settings: field name -> value, to override the other settings. Blocks. Raises SettingsError."""
    if not settings.secrets:
        return {}
    config = Config(connect_timeout=TIMEOUT_SECONDS, read_timeout=TIMEOUT_SECONDS, retries={"total_max_attempts": 3})
    try:
        client: Any = boto3.client("secretsmanager", region_name=settings.aws_region, config=config)
        return {
            _field(variable): client.get_secret_value(SecretId=secret)["SecretString"]
            for variable, secret in settings.secrets.items()
        }
    except ClientError as error:
        # Only the code: the message names the secret.
        raise SettingsError(f"TURNSTILE_SECRETS: {error.response['Error']['Code']}") from error
    except (BotoCoreError, KeyError) as error:
        raise SettingsError(f"TURNSTILE_SECRETS: {type(error).__name__}") from error


def _field(variable: str) -> str:
    field = variable.removeprefix("TURNSTILE_").lower()
    if field not in Settings.model_fields or field == "secrets":
        raise SettingsError(f"TURNSTILE_SECRETS: {json.dumps(variable)} is not a setting")
    return field
