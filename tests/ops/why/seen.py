"""Builders of facts about turns that wait; whatever a test does not care about has a default."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.support.records import make_record
from turnstile.ops.why.wait_facts import (
    LastAttempt,
    SeenErasure,
    SeenLimit,
    SeenLock,
    SeenPause,
    SeenQueue,
    SeenRowLock,
    SeenTurn,
    SeenWorker,
    WaitFacts,
    WaitTerms,
)
from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
TURN, HEAD, FAILED = (UUID(int=number) for number in (2, 1, 9))
TERMS = WaitTerms(overdue_seconds=25.0, tenant_share="fair", max_crashes={"turns": 3})
PAUSE = SeenPause(by="ann@desk", since=NOW, reason=None)
ERASURE = SeenErasure(erasure_id=UUID(int=7), requested_by="ann@desk", since=NOW - timedelta(seconds=30))
ROW_LOCK = SeenRowLock(pid=77, user_name="ann", application="psql", since=NOW)
LIMIT = SeenLimit(
    limit="models", value="large", places=1, concurrency=2, running=2, waiting=5, paused_seconds=0.0, slot_seconds=0.0
)
LOCK = SeenLock(key="lock:session:{t/s}", worker_id="w", seconds_left=12.0)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def seen_turn(**fields: Any) -> SeenTurn:
    """A PENDING head that is due, and whose wake-up was sent by the API."""
    given: dict[str, Any] = {
        "seq": 2, "expires_at": ago(-900), "created_at": ago(30), "queued_at": ago(30),
        "lease_until": None, "send_at": ago(-60), "sends": 0, "hand_backs": 0, "open_children": (), "last_attempt": None,
    }  # fmt: skip
    return SeenTurn(**{**asdict(make_record(TURN)), **given, **fields})


def running_turn(**fields: Any) -> SeenTurn:
    """A RUNNING turn with a valid lease of worker `w`."""
    given: dict[str, Any] = {
        "status": TurnStatus.RUNNING, "attempt": 1, "worker_id": "w", "lease_until": ago(-20), "send_at": None,
        "started_at": ago(10),
    }  # fmt: skip
    return seen_turn(**{**given, **fields})


def seen_worker(worker_id: str = "w", **fields: Any) -> SeenWorker:
    """A worker with four free slots, seen a moment ago."""
    given: dict[str, Any] = {
        "slots": 4, "busy": 0, "draining": False, "seen_at": ago(5), "alive": True, "running": 0,
        "running_of_tenant": 0, "most_crashes": 0, "host": "h", "pid": 7, "blocked_for_seconds": 0.0, "blocked_by": None,
    }  # fmt: skip
    return SeenWorker(worker_id=worker_id, **{**given, **fields})


def seen_queue(*workers: SeenWorker, pause: SeenPause | None = None, older_turn_count: int = 0) -> SeenQueue:
    return SeenQueue(pause=pause, workers=workers or (seen_worker(),), older_turn_count=older_turn_count)


def wait_facts(turn: SeenTurn | None = None, **fields: Any) -> WaitFacts:
    """The turn is the head of its session, unless `head` is given."""
    asked = turn or seen_turn()
    given: dict[str, Any] = {"head": asked, "halt": None, "erasure": None, "queue": seen_queue()}
    return WaitFacts(at=NOW, turn=asked, **{**given, **fields})


def last_attempt(outcome: AttemptOutcome, **fields: Any) -> LastAttempt:
    return LastAttempt(outcome=outcome, **{"error_class": None, "error": None, **fields})
