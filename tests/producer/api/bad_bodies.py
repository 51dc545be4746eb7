"""Bodies of a submit that are refused, with their status and problem."""

import json
from typing import Any
from uuid import uuid4

JSON = {"Content-Type": "application/json"}


def request(**fields: Any) -> bytes:
    return json.dumps({"input": "x", **fields}).encode()


def nested(levels: int) -> bytes:
    return b'{"input":' + b'{"a":' * (levels - 1) + b"1" + b"}" * levels


BODIES = {
    "nothing": (b"", 400, "invalid-json"),
    "no JSON": (b"hello", 400, "invalid-json"),
    "half of it": (b'{"input": "x"', 400, "invalid-json"),
    "two values": (b'{"input": "x"} {}', 400, "invalid-json"),
    "a byte order mark": (b'\xef\xbb\xbf{"input": "x"}', 400, "invalid-json"),
    "UTF-16": ('{"input": "x"}'.encode("utf-16"), 400, "invalid-json"),
    "Latin-1": ('{"input": "é"}'.encode("latin-1"), 400, "invalid-json"),
    "a raw surrogate": (b'{"input": "\xed\xa0\x80"}', 400, "invalid-json"),
    "NaN": (b'{"input": {"a": NaN}}', 400, "invalid-json"),
    "Infinity": (b'{"input": {"a": -Infinity}}', 400, "invalid-json"),
    "a control character": (b'{"input": "a\x01"}', 400, "invalid-json"),
    "a bomb of arrays": (b"[" * 60_000, 422, "invalid-body"),
    "a bomb of objects": (b'{"a":' * 10_000, 422, "invalid-body"),
    "33 levels": (nested(33), 422, "invalid-body"),
    "an escaped surrogate": (b'{"input": "\\ud800"}', 422, "invalid-body"),
    "a surrogate in a key": (b'{"input": {"\\udfff": 1}}', 422, "invalid-body"),
    "U+0000": (b'{"input": "a\\u0000b"}', 422, "invalid-body"),
    "U+0000 in a key": (b'{"input": {"a\\u0000": 1}}', 422, "invalid-body"),
    "U+0000 in metadata": (b'{"input": "x", "metadata": {"a": ["\\u0000"]}}', 422, "invalid-body"),
    "a key twice": (b'{"input": "x", "input": "y"}', 422, "invalid-body"),
    "a key twice further in": (b'{"input": {"a": [{"b": 1, "b": 2}]}}', 422, "invalid-body"),
    "thousands of digits": (b'{"input": {"a": ' + b"9" * 5000 + b"}}", 422, "invalid-body"),
    "an infinite number": (b'{"input": {"a": 1e999}}', 422, "invalid-body"),
    "null": (b"null", 422, "invalid-body"),
    "an array": (b'[{"input": "x"}]', 422, "invalid-body"),
    "a string": (b'"x"', 422, "invalid-body"),
    "no input": (b"{}", 422, "invalid-body"),
    "input null": (request(input=None), 422, "invalid-body"),
    "input empty": (request(input=""), 422, "invalid-body"),
    "input blank": (request(input=" \n\t\u2003"), 422, "invalid-body"),
    "input an empty object": (request(input={}), 422, "invalid-body"),
    "input an array": (request(input=["x"]), 422, "invalid-body"),
    "input a number": (request(input=1), 422, "invalid-body"),
    "input true": (request(input=True), 422, "invalid-body"),
    "an unknown field": (request(max_attemps=3), 422, "invalid-body"),
    "an unknown field that is null": (request(nonsense=None), 422, "invalid-body"),
    "on_busy of an unknown kind": (request(on_busy="rollback"), 422, "invalid-body"),
    "on_busy a list": (request(on_busy=["merge"]), 422, "invalid-body"),
    "on_busy of a scheduled turn": (request(on_busy="reject", execute_at="2024-01-01T00:00:00Z"), 422, "invalid-body"),
    "a webhook for what is merged": (request(on_busy="merge", webhook_url="https://a.example/x"), 422, "invalid-body"),
    "a turn_id for what is merged": (request(on_busy="merge", turn_id=str(uuid4())), 422, "invalid-body"),
    "a tenant in the body": (request(tenant_id="globex"), 422, "invalid-body"),
    "max_attempts true": (request(max_attempts=True), 422, "invalid-body"),
    "max_attempts 0": (request(max_attempts=0), 422, "invalid-body"),
    "max_attempts 101": (request(max_attempts=101), 422, "invalid-body"),
    "max_attempts 1.5": (request(max_attempts=1.5), 422, "invalid-body"),
    "max_attempts as text": (request(max_attempts="3"), 422, "invalid-body"),
    "timeout_seconds 0": (request(timeout_seconds=0), 422, "invalid-body"),
    "timeout_seconds negative": (request(timeout_seconds=-1), 422, "invalid-body"),
    "timeout_seconds false": (request(timeout_seconds=False), 422, "invalid-body"),
    "timeout_seconds huge": (request(timeout_seconds=1e300), 422, "invalid-body"),
    "expires_in_seconds 0": (request(expires_in_seconds=0), 422, "invalid-body"),
    "expires_in_seconds an age": (request(expires_in_seconds=10**12), 422, "invalid-body"),
    "metadata a list": (request(metadata=[1]), 422, "invalid-body"),
    "metadata a string": (request(metadata="x"), 422, "invalid-body"),
    "metadata large": (request(metadata={"a": "x" * 4096}), 422, "invalid-body"),
    "turn_id no UUID": (request(turn_id="1"), 422, "invalid-body"),
    "turn_id a number": (request(turn_id=1), 422, "invalid-body"),
    "turn_id in braces": (request(turn_id="{2f1c1b52-8f0e-4c39-a1bb-5ab4b3bb3b1e}"), 422, "invalid-body"),
    "execute_at without a zone": (request(execute_at="2027-01-01T00:00:00"), 422, "invalid-body"),
    "execute_at a day": (request(execute_at="2027-01-01"), 422, "invalid-body"),
    "execute_at a number": (request(execute_at=1_800_000_000), 422, "invalid-body"),
    "execute_at no day of a calendar": (request(execute_at="2027-02-30T00:00:00Z"), 422, "invalid-body"),
    "execute_at a leap second": (request(execute_at="2026-06-30T23:59:60Z"), 422, "invalid-body"),
    "execute_at in the year 1": (request(execute_at="0001-01-01T00:00:00+14:00"), 422, "invalid-body"),
    "execute_at in the year 0": (request(execute_at="0000-01-01T00:00:00Z"), 422, "invalid-body"),
    "execute_at in the year 9999": (request(execute_at="9999-12-31T23:59:59-14:00"), 422, "invalid-body"),
    "execute_at in two years": (request(execute_at="2090-01-01T00:00:00Z"), 422, "invalid-body"),
    "execute_at in a zone that is none": (request(execute_at="2027-01-01T00:00:00+99:99"), 422, "invalid-body"),
    "an unknown queue": (request(queue="nowhere"), 422, "unknown-queue"),
    "a queue that is no name": (request(queue="a b\n"), 422, "unknown-queue"),
    "an empty queue": (request(queue=""), 422, "unknown-queue"),
    "a queue that is no text": (request(queue=1), 422, "invalid-body"),
    "too large": (request(input="x" * 65_536), 413, "body-too-large"),
}
