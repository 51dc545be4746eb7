"""A line for AWS's command line, read as that program reads it: by botocore's description of the service.

The program itself is not among the locked packages: each of its releases is pinned to one botocore, and `aws logs tail` is in its
second version only, which no Python package has.
"""

import json
import re
import time
from dataclasses import dataclass
from typing import Any

import jmespath
from botocore import xform_name
from botocore.model import OperationModel, Shape, StructureShape
from botocore.session import Session

_AGE_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class NoSuchLineError(Exception):
    """AWS's command line would refuse it."""


@dataclass(frozen=True, slots=True)
class Call:
    """The call that a line makes."""

    service: str
    operation: OperationModel
    parameters: dict[str, Any]
    query: str | None

    @property
    def method(self) -> str:
        """The method of boto3's client."""
        return xform_name(self.operation.name)


def read_call(words: list[str], session: Session) -> Call:
    """From the words after `aws`. Raises NoSuchLineError for an operation, an option or a value that AWS does not know."""
    if words[:2] == ["logs", "tail"]:
        return _read_tail(words[2:], session)
    service, verb, *options = words
    model = session.get_service_model(service)
    operations = {xform_name(name, "-"): name for name in model.operation_names}
    if verb not in operations:
        raise NoSuchLineError(f"aws {service} {verb}")
    operation = model.operation_model(operations[verb])
    given, query = _read_options(options, operation.input_shape)
    return Call(service, operation, given, query)


def _read_options(options: list[str], shape: StructureShape | None) -> tuple[dict[str, Any], str | None]:
    members = {} if shape is None else {xform_name(name, "-"): name for name in shape.members}
    given: dict[str, Any] = {}
    query = None
    rest = list(options)
    while rest:
        option = rest.pop(0).removeprefix("--")
        if option == "query":
            query = rest.pop(0)
            continue
        name = members.get(option) or members.get(option.removeprefix("no-"))
        if name is None or shape is None:
            raise NoSuchLineError(f"no option --{option}")
        member = shape.members[name]
        given[name] = option in members if member.type_name == "boolean" else _read_value(rest.pop(0), member)
    missing = set() if shape is None else {*shape.required_members} - {*given}
    if missing:
        raise NoSuchLineError(f"missing: {', '.join(sorted(missing))}")
    return given, query


def _read_value(text: str, shape: Shape) -> Any:
    match shape.type_name:
        case "integer" | "long":
            return int(text)
        case "list" if not text.startswith("["):
            return [text]
        case "list" | "structure" | "map":
            return json.loads(text)
    allowed = getattr(shape, "enum", [])
    if allowed and text not in allowed:
        raise NoSuchLineError(f"{text} is none of {', '.join(allowed)}")
    return text


def _read_tail(words: list[str], session: Session) -> Call:
    """`aws logs tail GROUP --since AGE`, which the program makes of FilterLogEvents."""
    group, *options = words
    age = re.fullmatch(r"(\d+)([smhd])", options[1]) if options[:1] == ["--since"] and len(options) == 2 else None
    if age is None:
        raise NoSuchLineError(f"aws logs tail {' '.join(words)}")
    since = time.time() - int(age[1]) * _AGE_UNITS[age[2]]
    operation = session.get_service_model("logs").operation_model("FilterLogEvents")
    return Call("logs", operation, {"logGroupName": group, "startTime": int(since * 1000)}, None)


def select(query: str | None, answer: dict[str, Any]) -> Any:
    """What `--query` shows of an answer, in which the program writes times as text."""
    document = json.loads(json.dumps(answer, default=str))
    return document if query is None else jmespath.search(query, document)
