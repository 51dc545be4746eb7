"""How long session locks are held, logged while they are held."""

from structlog.testing import capture_logs

from tests.support.factories import CLAIMED
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.held_locks import LINE_SECONDS, extended_locks, longest_hold, report_long_holds
from turnstile.worker.session_lock import LockedSession

LEASE, USUAL = 30.0, 30.0


def held(since: float, *, ours_at: float | None = None, **fields: object) -> HeartbeatEntry:
    """A lock that was acquired then, of a turn whose row is ours."""
    lock = LockedSession("lock:session:{t/s}", "lock:session:{t/s}:waiting", "token")
    kept = HeartbeatEntry(lock, None, CLAIMED)
    kept.held_since, kept.ours_at = since, since if ours_at is None else ours_at
    for name, value in fields.items():
        setattr(kept, name, value)
    return kept


def logged(kept: HeartbeatEntry, *moments: float) -> list[float]:
    with capture_logs() as lines:
        for now in moments:
            report_long_holds([kept], now, USUAL)
    assert {line["event"] for line in lines} <= {"session.held"}
    return [line["held_seconds"] for line in lines]


def test_a_hold_that_does_not_end_is_logged_once_a_minute_with_its_turn() -> None:
    kept = held(100.0)

    assert logged(kept, 110.0, 130.0) == []
    assert logged(kept, 131.0, 141.0, 131.0 + LINE_SECONDS) == [31.0, 31.0 + LINE_SECONDS]

    with capture_logs() as lines:
        report_long_holds([kept], 131.0 + 2 * LINE_SECONDS, USUAL)
    assert (lines[0]["key"], lines[0]["turn_id"]) == ("lock:session:{t/s}", str(CLAIMED.id))


def test_a_lock_whose_release_has_begun_is_not_held() -> None:
    kept = held(100.0, keeps_lock=False)

    assert logged(kept, 300.0) == []
    assert longest_hold([kept], 110.0, LEASE) == 0.0


def test_a_hold_between_two_turns_is_logged_without_a_turn() -> None:
    assert logged(held(100.0, turn=None), 131.0) == [31.0]


def test_the_longest_hold_is_that_of_the_lock_that_was_taken_first() -> None:
    taken = [held(100.0, ours_at=140.0), held(120.0, ours_at=140.0), held(90.0, lock=None, ours_at=140.0)]

    assert longest_hold(taken, 150.0, LEASE) == 50.0
    assert longest_hold([], 150.0, LEASE) == 0.0


def test_a_lock_that_is_no_longer_extended_is_not_held() -> None:
    """Without Postgres for a lease, the worker lets it run out."""
    kept = held(100.0)

    assert extended_locks([kept], 129.0, LEASE) == [kept]
    assert extended_locks([kept], 130.0, LEASE) == []
    assert longest_hold([kept], 130.0, LEASE) == 0.0
