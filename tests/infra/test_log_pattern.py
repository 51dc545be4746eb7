"""The judge of the alarms' log patterns judges as CloudWatch does."""

import pytest

from tests.infra.log_pattern import matches

FAILED = '{ ($.event = "turn.failed") && ($.level = "error") }'


@pytest.mark.parametrize(
    ("pattern", "line", "counted"),
    [
        (FAILED, {"event": "turn.failed", "level": "error"}, True),
        (FAILED, {"event": "turn.failed", "level": "info"}, False),
        (FAILED, {"event": "turn.retried", "level": "error"}, False),
        (FAILED, {"level": "error"}, False),
        (FAILED, '{"event": "turn.failed", "level": "error"}', True),
        (FAILED, "turn.failed error", False),
        (FAILED, '["turn.failed", "error"]', False),
        ('{ $.event = "a" }', {"event": "a"}, True),
        ('{ ($.event = "a") && ($.seconds = *) }', {"event": "a", "seconds": "0.1"}, True),
        ('{ ($.event = "a") && ($.seconds = *) }', {"event": "a"}, False),
        ('{ ($.event = "a") || ($.event = "b") }', {"event": "b"}, True),
        ('{ ($.event = "a") || ($.event = "b") }', {"event": "c"}, False),
    ],
)
def test_a_line_is_counted_or_not(pattern: str, line: dict[str, str] | str, counted: bool) -> None:
    assert matches(pattern, line) is counted


@pytest.mark.parametrize(
    "pattern", ["turn.failed", "{ $.seconds > 3 }", '{ ($.a = "1") && ($.b = "2") || ($.c = "3") }', '{ $.a.b = "1" }']
)
def test_a_pattern_that_it_does_not_understand_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"not|both"):
        matches(pattern, {"event": "x"})
