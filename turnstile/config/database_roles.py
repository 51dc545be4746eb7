"""The role of the database that each kind of process connects as, where one environment is for all of them."""

import json
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

Process = Literal["api", "worker", "relay", "owner"]
"""A kind of process that may have a role of its own. `owner`: `migrate` and `grant`."""


def _parse(value: Any) -> Any:
    """No message quotes a value: it has a password."""
    if not isinstance(value, str):
        return value
    given = json.loads(value) if value.strip() else {}
    if not isinstance(given, dict) or not all(re.fullmatch(r"[^:]+:.+", str(login)) for login in given.values()):
        raise ValueError('must be like {"api": "role:password"}')
    return given


DatabaseRoles = Annotated[dict[Process, str], NoDecode, BeforeValidator(_parse), Field(repr=False)]
"""`role:password` of some processes, as a JSON object."""
