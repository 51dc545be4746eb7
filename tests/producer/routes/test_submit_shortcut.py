"""Which requests go the short way, past FastAPI, and which the long one."""

from types import SimpleNamespace
from typing import Any

import pytest
from starlette.datastructures import State

from turnstile.producer.http.auth import ApiKeys
from turnstile.producer.routes import turns as api
from turnstile.producer.routes.submit_shortcut import _READ, SubmitShortcut

PATH = "/v1/sessions/s.1:a/turns"
JSON = (b"content-type", b"application/json")
OURS = (b"authorization", b"Bearer key-of-acme")
THEIRS = (b"authorization", b"Bearer key-of-nobody")


def takes(scope: dict[str, Any], *keys: tuple[str, str]) -> bool:
    backend = SimpleNamespace(api_keys=ApiKeys(keys), intake=None)
    return SubmitShortcut(State({"backend": backend})).takes(scope)


def submit(*headers: tuple[bytes, bytes], **otherwise: Any) -> dict[str, Any]:
    ordinary = {"type": "http", "method": "POST", "path": PATH, "query_string": b"", "root_path": ""}
    return {**ordinary, "headers": [JSON, *headers], **otherwise}


ORDINARY = {
    "bare": submit(),
    "with a key of the client's": submit((b"idempotency-key", b"once more")),
    "with a trace": submit((b"traceparent", b"what is not valid is ignored")),
    "with headers that no route reads": submit((b"accept", b"*/*"), (b"accept", b"application/json")),
    "of another media type, which the body's reader refuses": submit((b"content-type", b"text/plain")),
}
EXTRAORDINARY = {
    "another method": submit(method="GET"),
    "a query": submit(query_string=b"wait=1"),
    "another path": submit(path="/v1/turns"),
    "more of a path": submit(path=f"{PATH}/"),
    "a session that is none": submit(path="/v1/sessions/a b/turns"),
    "a mounted application": submit(root_path="/mounted"),
    "a wait": submit((b"prefer", b"wait=1")),
    "two traces": submit((b"traceparent", b"a"), (b"traceparent", b"b")),
    "an empty key": submit((b"idempotency-key", b"")),
    "a key that begins with a blank": submit((b"idempotency-key", b" k")),
    "a key that is too long": submit((b"idempotency-key", b"k" * 256)),
    "two keys": submit((b"idempotency-key", b"a"), (b"idempotency-key", b"b")),
}


@pytest.mark.parametrize("scope", ORDINARY.values(), ids=ORDINARY)
def test_an_ordinary_submit_goes_the_short_way(scope: dict[str, Any]) -> None:
    assert takes(scope)


@pytest.mark.parametrize("scope", EXTRAORDINARY.values(), ids=EXTRAORDINARY)
def test_what_is_out_of_the_ordinary_goes_the_long_way(scope: dict[str, Any]) -> None:
    assert not takes(scope)


@pytest.mark.parametrize(
    ("headers", "known"),
    [
        ([OURS], True),
        ([(b"authorization", b"bearer   key-of-acme")], True),
        ([THEIRS], False),
        ([OURS, THEIRS], False),
        ([(b"authorization", b"Basic key-of-acme")], False),
        ([(b"authorization", b"Bearer")], False),
        ([], False),
    ],
)
def test_where_keys_are_needed_only_whoever_has_one_goes_the_short_way(
    headers: list[tuple[bytes, bytes]], known: bool
) -> None:
    assert takes(submit(*headers), ("acme", "key-of-acme")) is known


def test_the_shortcut_knows_every_header_that_the_route_declares() -> None:
    (route,) = [route for route in api.v1.routes if getattr(route, "name", None) == "submit_turn"]
    declared = {field.alias.lower().encode() for field in route.dependant.header_params}  # type: ignore[attr-defined]

    assert declared
    assert declared | {b"authorization"} == _READ
