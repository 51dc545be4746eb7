"""The log line of a lock attempt (M9): key, time to live, result and duration. The owner is the line's `worker_id`."""

import structlog.testing

from turnstile.worker.session_lock import Guard
from turnstile.worker.turn_log import report_lock


def test_a_lock_attempt_is_logged_with_its_key_time_to_live_result_and_duration() -> None:
    with structlog.testing.capture_logs() as lines:
        report_lock("turns", "lock:session:{t/s}", 30.0, Guard.BUSY, 0.01)

    expected = {"key": "lock:session:{t/s}", "ttl_seconds": 30.0, "result": "busy", "seconds": 0.01}
    assert lines == [{"event": "session.lock", "log_level": "info", **expected}]


def test_a_lock_that_no_worker_has_set_is_a_warning_with_its_key() -> None:
    with structlog.testing.capture_logs() as lines:
        report_lock("turns", "lock:session:{t/s}", 30.0, Guard.FOREIGN, 0.01)

    [warning] = [line for line in lines if line["log_level"] == "warning"]
    assert (warning["event"], warning["key"]) == ("session.lock_foreign", "lock:session:{t/s}")
