"""Prints the API's OpenAPI document, as `/openapi.json` serves it, but with sorted members.

python -m turnstile.dev.openapi_document
"""

import json
import sys

from turnstile.config.settings import Settings
from turnstile.producer.app import create_app


def openapi_document() -> str:
    return json.dumps(create_app(Settings()).openapi(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(openapi_document())
