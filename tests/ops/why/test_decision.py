"""What a turn waits for, by its facts: one reason, and the one that has to go first."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from tests.ops.why.seen import (
    FAILED,
    HEAD,
    LOCK,
    NOW,
    PAUSE,
    ROW_LOCK,
    TERMS,
    ago,
    last_attempt,
    running_turn,
    seen_queue,
    seen_turn,
    seen_worker,
    wait_facts,
)
from turnstile.ops.why.decision import decide
from turnstile.ops.why.reason import (
    AtRest,
    Behind,
    Ended,
    Halted,
    Joining,
    Locked,
    LockWithoutRow,
    Lost,
    NotSent,
    NoWorker,
    OnItsWay,
    Paused,
    Quarantined,
    Reason,
    Retry,
    Running,
    Scheduled,
    SentInVain,
    SlotsBusy,
    Snoozed,
    TenantFull,
    WorkerBlock,
    code_of,
)
from turnstile.ops.why.wait_facts import OpenChild, SeenHalt, WaitFacts
from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus

HALT = SeenHalt(turn_id=FAILED, error_class="ValueError", error="no", since=ago(60))
PAUSED = Paused(queue="turns", by="ann@desk", since=NOW, reason=None)
CHILD = OpenChild(id=HEAD, session_id="c", status=TurnStatus.PENDING)
GONE = seen_worker(seen_at=ago(60), alive=False)
NOBODY = NoWorker(queue="turns", draining=0, last_seen_at=ago(60))
LATER = ago(-600)
RETRIED = last_attempt(AttemptOutcome.RETRIED, error_class="TimeoutError", error="too slow")
SNOOZED = last_attempt(AttemptOutcome.SNOOZED, error="busy")
RELEASED = last_attempt(AttemptOutcome.RELEASED)
RUNS = Running(worker_id="w", since=ago(10), lease_until=ago(-20), seen_at=ago(5), crashes_left=3)
ON_ITS_WAY = OnItsWay(since=ago(30), next_at=ago(-60), older=0)
FULL = seen_worker(running=4, running_of_tenant=3, busy=4)
ROW_LOCKED = Locked(pid=77, user_name="ann", application="psql", since=NOW, running_in=None)
ALONE = Quarantined(crashes=2, alone=True)
CRASHED = seen_worker(most_crashes=1)
LOCKED = LockWithoutRow(key=LOCK.key, worker_id="w", seconds_left=12.0, worker_is_alive=True)


def ended(status: TurnStatus, **fields: Any) -> WaitFacts:
    return wait_facts(seen_turn(status=status, send_at=None, finished_at=ago(10), **fields), head=None)


def lost(**fields: Any) -> Lost:
    given: dict[str, Any] = {
        "worker_id": "w",
        "since": ago(10),
        "lease_until": ago(1),
        "seen_at": ago(5),
        "obstacle": None,
    }
    return Lost(**{**given, **fields})


STATES: dict[str, tuple[WaitFacts, Reason]] = {
    "answered": (ended(TurnStatus.SUCCEEDED), Ended(status=TurnStatus.SUCCEEDED, since=ago(10))),
    "failed": (
        ended(TurnStatus.FAILED, error_class="expired", error="e"),
        Ended(status=TurnStatus.FAILED, since=ago(10), error_class="expired", error="e"),
    ),
    "canceled": (
        ended(TurnStatus.CANCELED, cancel_reason="user"),
        Ended(status=TurnStatus.CANCELED, since=ago(10), cancel_reason="user"),
    ),
    "answered, in a session that was halted since": (
        replace(ended(TurnStatus.SUCCEEDED), halt=HALT),
        Ended(status=TurnStatus.SUCCEEDED, since=ago(10)),
    ),
    "failed, and halts its session": (
        replace(ended(TurnStatus.FAILED, id=FAILED), halt=HALT),
        Halted(turn_id=FAILED, error_class="ValueError", error="no", since=ago(60)),
    ),
    "in a halted session, on a paused queue": (
        wait_facts(halt=HALT, queue=seen_queue(pause=PAUSE)),
        Halted(turn_id=FAILED, error_class="ValueError", error="no", since=ago(60)),
    ),
    "runs": (wait_facts(running_turn()), RUNS),
    "runs on a paused queue": (wait_facts(running_turn(), queue=seen_queue(seen_worker(), pause=PAUSE)), RUNS),
    "runs, and its worker is not on record": (
        wait_facts(running_turn(), queue=seen_queue(seen_worker("other"))),
        replace(RUNS, seen_at=None),
    ),
    "runs, and was asked to stop": (
        wait_facts(running_turn(cancel_requested_at=ago(3))),
        replace(RUNS, cancel_requested_at=ago(3)),
    ),
    "runs, after a crash": (wait_facts(running_turn(crashes=1)), replace(RUNS, crashes=1, crashes_left=2)),
    "runs, on a queue that is not declared here": (
        wait_facts(running_turn(queue="elsewhere")),
        replace(RUNS, crashes_left=None),
    ),
    "runs in a worker that another turn blocks": (
        wait_facts(running_turn(), queue=seen_queue(seen_worker(blocked_for_seconds=34.0, blocked_by=HEAD))),
        replace(RUNS, block=WorkerBlock(since=ago(39), by=HEAD, host="h", pid=7)),
    ),
    "runs in a worker that was blocked when it was last seen, long ago": (
        wait_facts(running_turn(), queue=seen_queue(replace(GONE, blocked_for_seconds=34.0))),
        replace(RUNS, seen_at=ago(60)),
    ),
    "runs, and its row is locked": (
        wait_facts(running_turn(), row_lock=ROW_LOCK),
        replace(ROW_LOCKED, running_in="w"),
    ),
    "its lease ran out, and its row is locked": (
        wait_facts(running_turn(lease_until=ago(1)), row_lock=ROW_LOCK),
        lost(marked=False, obstacle=replace(ROW_LOCKED, running_in="w")),
    ),
    "its lease ran out, and one more crash would end it, beside a turn with a crash": (
        wait_facts(running_turn(lease_until=ago(1), send_at=NOW, crashes=1), queue=seen_queue(CRASHED)),
        lost(marked=True, obstacle=ALONE),
    ),
    "its lease ran out, and one more crash would end it, and a worker is free of crashes": (
        wait_facts(
            running_turn(lease_until=ago(1), send_at=NOW, crashes=1), queue=seen_queue(CRASHED, seen_worker("b"))
        ),
        lost(marked=True),
    ),
    "after a crash, beside a turn that one more would end": (
        wait_facts(seen_turn(crashes=1), queue=seen_queue(seen_worker(most_crashes=2))),
        Quarantined(crashes=1, alone=False),
    ),
    "after a crash, beside a turn with one": (wait_facts(seen_turn(crashes=1), queue=seen_queue(CRASHED)), ON_ITS_WAY),
    "its row is locked, and its wake-up is due": (
        wait_facts(seen_turn(send_at=ago(60)), lock=LOCK, row_lock=ROW_LOCK),
        ROW_LOCKED,
    ),
    "scheduled, its time has come, and its row is locked": (
        wait_facts(seen_turn(seq=None, execute_at=ago(60), send_at=ago(60)), head=None, row_lock=ROW_LOCK),
        ROW_LOCKED,
    ),
    "its lease ran out": (wait_facts(running_turn(lease_until=ago(1))), lost(marked=False)),
    "its lease ran out, and a relay has marked it": (
        wait_facts(running_turn(lease_until=ago(1), send_at=NOW)),
        lost(marked=True),
    ),
    "its lease ran out, on a paused queue": (
        wait_facts(running_turn(lease_until=ago(1)), queue=seen_queue(pause=PAUSE)),
        lost(marked=False, obstacle=PAUSED),
    ),
    "its lease ran out, and no worker is left": (
        wait_facts(running_turn(lease_until=ago(1)), queue=seen_queue(GONE)),
        lost(marked=False, seen_at=ago(60), obstacle=NOBODY),
    ),
    "scheduled": (wait_facts(seen_turn(seq=None, execute_at=LATER), head=None), Scheduled(until=LATER)),
    "scheduled, behind open turns of its session": (
        wait_facts(seen_turn(seq=None, execute_at=LATER), head=running_turn(id=HEAD)),
        Scheduled(until=LATER),
    ),
    "scheduled, and its time has just come": (
        wait_facts(seen_turn(seq=None, execute_at=ago(1), send_at=ago(1)), head=None),
        OnItsWay(since=ago(1), next_at=ago(1), older=0),
    ),
    "scheduled, and no relay places it": (
        wait_facts(seen_turn(seq=None, execute_at=ago(60), send_at=ago(60)), head=None),
        NotSent(queue="turns", since=ago(60), placed=False, workers=1),
    ),
    "waits for its retry": (
        wait_facts(seen_turn(execute_at=LATER, attempt=2, last_attempt=RETRIED)),
        Retry(until=LATER, attempt=2, error_class="TimeoutError", error="too slow"),
    ),
    "waits for its retry on a paused queue": (
        wait_facts(seen_turn(execute_at=LATER, attempt=2, last_attempt=RETRIED), queue=seen_queue(pause=PAUSE)),
        PAUSED,
    ),
    "snoozed": (
        wait_facts(seen_turn(execute_at=LATER, last_attempt=SNOOZED)),
        Snoozed(until=LATER, reason="busy"),
    ),
    "waits for a time, and nothing says why": (
        wait_facts(seen_turn(execute_at=LATER, last_attempt=RELEASED)),
        Scheduled(until=LATER),
    ),
    "waits for its children": (
        wait_facts(seen_turn(execute_at=LATER, children=2, open_children=(CHILD,))),
        Joining(children=2, open_children=(CHILD,), until=LATER),
    ),
    "a join that has expired": (wait_facts(seen_turn(execute_at=ago(5), children=1)), replace(ON_ITS_WAY, since=ago(5))),
    "on a paused queue without a worker": (wait_facts(queue=seen_queue(GONE, pause=PAUSE)), PAUSED),
    "no worker is alive": (wait_facts(queue=seen_queue(GONE), lock=LOCK), NOBODY),
    "no worker has ever been seen": (
        wait_facts(queue=replace(seen_queue(), workers=())),
        NoWorker(queue="turns", draining=0, last_seen_at=None),
    ),
    "all workers shut down": (
        wait_facts(queue=seen_queue(seen_worker(draining=True))),
        NoWorker(queue="turns", draining=1, last_seen_at=ago(5)),
    ),
    "locked by a live worker": (wait_facts(lock=LOCK), LOCKED),
    "locked by a worker that is gone": (
        wait_facts(lock=replace(LOCK, worker_id="gone"), queue=seen_queue(FULL)),
        replace(LOCKED, worker_id="gone", worker_is_alive=False),
    ),
    "its wake-up is due, and slots are busy": (
        wait_facts(seen_turn(send_at=ago(60), sends=3), queue=seen_queue(FULL)),
        NotSent(queue="turns", since=ago(60), placed=True, workers=1),
    ),
    "its wake-up has just become due": (
        wait_facts(seen_turn(send_at=ago(20))),
        OnItsWay(since=ago(30), next_at=ago(20), older=0),
    ),
    "its tenant has its share": (
        wait_facts(queue=seen_queue(FULL)),
        TenantFull(tenant_id="t", running=3, workers=1, share="fair"),
    ),
    "its tenant has its share in one of two workers": (wait_facts(queue=seen_queue(FULL, seen_worker("free"))), ON_ITS_WAY),
    "its tenant has all slots, and no other tenant runs": (
        wait_facts(queue=seen_queue(seen_worker(running=4, running_of_tenant=4, busy=4), older=7)),
        SlotsBusy(queue="turns", workers=1, slots=4, older=7),
    ),
    "all slots of other tenants": (
        wait_facts(queue=seen_queue(seen_worker(running=4, busy=4), seen_worker("b", busy=4))),
        SlotsBusy(queue="turns", workers=2, slots=8, older=0),
    ),
    "slots of a worker that shuts down are busy": (
        wait_facts(queue=seen_queue(seen_worker(), seen_worker("b", busy=4, draining=True))),
        ON_ITS_WAY,
    ),
    "wake-ups were sent": (
        wait_facts(seen_turn(sends=4), queue=seen_queue(older=3)),
        SentInVain(queue="turns", since=ago(30), sends=4, next_at=ago(-60), older=3),
    ),
    "just submitted": (wait_facts(), ON_ITS_WAY),
    "behind a running turn": (
        wait_facts(head=running_turn(id=HEAD, seq=1)),
        Behind(head=running_turn(id=HEAD, seq=1), reason=RUNS),
    ),
    "behind a turn that waits for its retry": (
        wait_facts(head=seen_turn(id=HEAD, seq=1, execute_at=LATER, attempt=1, last_attempt=RETRIED)),
        Behind(
            head=seen_turn(id=HEAD, seq=1, execute_at=LATER, attempt=1, last_attempt=RETRIED),
            reason=Retry(until=LATER, attempt=1, error_class="TimeoutError", error="too slow"),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_a_state_has_its_one_reason(state: str) -> None:
    facts, reason = STATES[state]

    assert decide(facts, TERMS) == reason


def test_the_states_above_have_all_reasons() -> None:
    # A session at rest has no turn to decide about.
    assert {type(reason) for _, reason in STATES.values()} == {*get_args(Reason)} - {AtRest}


@pytest.mark.parametrize(("share", "full"), [("all", False), (3, True), (4, False), ("fair", True)])
def test_the_share_of_a_tenant_is_that_of_the_setting(share: Any, full: bool) -> None:
    worker = seen_worker(running=4, running_of_tenant=3)

    found = decide(wait_facts(queue=seen_queue(worker)), replace(TERMS, tenant_share=share))

    assert isinstance(found, TenantFull) is full


@pytest.mark.parametrize(
    ("waits", "sends", "running", "busy", "reason"),
    [
        pytest.param(30, 1, 3, 3, TenantFull, id="slot-kept-free"),
        pytest.param(1, 0, 3, 3, OnItsWay, id="just-come"),
        pytest.param(30, 0, 1, 1, OnItsWay, id="room"),
        pytest.param(30, 0, 4, 4, SlotsBusy, id="all-slots-run"),
        pytest.param(30, 0, 3, 4, SlotsBusy, id="all-slots-busy"),
        pytest.param(30, 4, 3, 3, SentInVain, id="nobody-receives"),
    ],
)
def test_a_turn_that_waits_beside_a_free_slot_tells_of_tenants_that_only_the_worker_knows(
    waits: float, sends: int, running: int, busy: int, reason: type[Reason]
) -> None:
    worker = seen_worker(running=running, running_of_tenant=running, busy=busy)

    found = decide(wait_facts(seen_turn(created_at=ago(waits), sends=sends), queue=seen_queue(worker)), TERMS)

    assert type(found) is reason


def test_a_reason_has_a_name_for_programs() -> None:
    assert [code_of(one) for one in (Running, NoWorker, LockWithoutRow)] == ["running", "no-worker", "lock-without-row"]
