"""Why a turn waits, by its facts: one reason, and the one that has to go first."""

from dataclasses import replace
from typing import Any

import pytest

from tests.ops.why.seen import (
    ERASURE,
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
from turnstile.ops.why.reason import Code
from turnstile.ops.why.wait_facts import SeenHalt, WaitFacts
from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus

HALT = SeenHalt(turn_id=FAILED, error_class="ValueError", error="no", since=ago(60))
GONE = seen_worker(seen_at=ago(60), alive=False)
LATER = ago(-600)
RETRIED = last_attempt(AttemptOutcome.RETRIED, error_class="TimeoutError", error="too slow")
RELEASED = last_attempt(AttemptOutcome.RELEASED)
FULL = seen_worker(running=4, running_of_tenant=3, busy=4)
CRASHED = seen_worker(most_crashes=1)
LEASE_OVER = running_turn(lease_until=ago(1))
LOST_AND_CRASHED = running_turn(lease_until=ago(1), send_at=NOW, crashes=1)
UNPLACED = seen_turn(seq=None, execute_at=ago(60), send_at=ago(60))
WAITS_FOR_RETRY = seen_turn(execute_at=LATER, attempt=2, last_attempt=RETRIED)


def ended(status: TurnStatus, **fields: Any) -> WaitFacts:
    return wait_facts(seen_turn(status=status, send_at=None, finished_at=ago(10), **fields), head=None)


STATES: dict[str, tuple[WaitFacts, Code, dict[str, Any]]] = {
    "answered, in a session that was halted since": (
        replace(ended(TurnStatus.SUCCEEDED), halt=HALT),
        Code.ENDED, {"status": TurnStatus.SUCCEEDED},
    ),
    "failed, and halts its session": (replace(ended(TurnStatus.FAILED, id=FAILED), halt=HALT), Code.HALTED, {}),
    "in a halted session, on a paused queue": (
        wait_facts(halt=HALT, queue=seen_queue(pause=PAUSE)),
        Code.HALTED, {"turn_id": FAILED},
    ),
    "in a session that is being erased": (wait_facts(erasure=ERASURE), Code.ERASING, {"requested_by": "ann@desk"}),
    "behind a turn that runs, in a session that is being erased": (
        wait_facts(seen_turn(), head=running_turn(id=HEAD), erasure=ERASURE),
        Code.ERASING, {},
    ),
    "ended, in a session that is being erased": (replace(ended(TurnStatus.FAILED), erasure=ERASURE), Code.ENDED, {}),
    "runs on a paused queue": (wait_facts(running_turn(), queue=seen_queue(seen_worker(), pause=PAUSE)), Code.RUNNING, {}),
    "runs, and its worker is not on record": (
        wait_facts(running_turn(), queue=seen_queue(seen_worker("other"))),
        Code.RUNNING, {"seen_at": None},
    ),
    "runs, on a queue that is not declared here": (
        wait_facts(running_turn(queue="elsewhere")),
        Code.RUNNING, {"crashes_left": None},
    ),
    "runs in a worker that was blocked when it was last seen, long ago": (
        wait_facts(running_turn(), queue=seen_queue(replace(GONE, blocked_for_seconds=34.0))),
        Code.RUNNING, {"block": None},
    ),
    "runs, and its row is locked": (wait_facts(running_turn(), row_lock=ROW_LOCK), Code.LOCKED, {"running_in": "w"}),
    "its lease ran out, on a paused queue": (
        wait_facts(LEASE_OVER, queue=seen_queue(GONE, pause=PAUSE)),
        Code.LOST, {"obstacle": Code.PAUSED},
    ),
    "its lease ran out, and no worker is left": (
        wait_facts(LEASE_OVER, queue=seen_queue(GONE), row_lock=ROW_LOCK),
        Code.LOST, {"obstacle": Code.NO_WORKER},
    ),
    "its lease ran out, and its row is locked": (
        wait_facts(LEASE_OVER, row_lock=ROW_LOCK),
        Code.LOST, {"obstacle": Code.LOCKED},
    ),
    "its lease ran out, it is one crash short of its limit, and a turn with a crash runs in each worker": (
        wait_facts(LOST_AND_CRASHED, queue=seen_queue(CRASHED)),
        Code.LOST, {"marked": True, "obstacle": Code.QUARANTINED},
    ),
    "its lease ran out, it is one crash short of its limit, and a worker is free of crashes": (
        wait_facts(LOST_AND_CRASHED, queue=seen_queue(CRASHED, seen_worker("b"))),
        Code.LOST, {"marked": True, "obstacle": None},
    ),
    "scheduled, behind open turns of its session": (
        wait_facts(seen_turn(seq=None, execute_at=LATER), head=running_turn(id=HEAD)),
        Code.SCHEDULED, {"until": LATER},
    ),
    "scheduled, and its time has just come": (
        wait_facts(replace(UNPLACED, execute_at=ago(1), send_at=ago(1)), head=None, queue=seen_queue(older_turn_count=7)),
        Code.NOT_BEGUN, {"older": 0},
    ),
    "scheduled, and no relay places it": (wait_facts(UNPLACED, head=None), Code.NOT_SENT, {"placed": False}),
    "scheduled, its time has come, and its row is locked": (
        wait_facts(UNPLACED, head=None, row_lock=ROW_LOCK),
        Code.LOCKED, {},
    ),
    "waits for its retry on a paused queue": (wait_facts(WAITS_FOR_RETRY, queue=seen_queue(pause=PAUSE)), Code.PAUSED, {}),
    "waits for a time, and nothing says why": (
        wait_facts(seen_turn(execute_at=LATER, last_attempt=RELEASED)),
        Code.SCHEDULED, {"until": LATER},
    ),
    "a join that has expired": (wait_facts(seen_turn(execute_at=ago(5), joining=[HEAD])), Code.NOT_BEGUN, {"since": ago(5)}),
    "on a paused queue without a worker": (wait_facts(queue=seen_queue(GONE, pause=PAUSE)), Code.PAUSED, {}),
    "no worker is alive": (wait_facts(queue=seen_queue(GONE), lock=LOCK), Code.NO_WORKER, {"last_seen_at": ago(60)}),
    "its row is locked, and its wake-up is due": (
        wait_facts(seen_turn(send_at=ago(60)), lock=LOCK, row_lock=ROW_LOCK),
        Code.LOCKED, {"running_in": None},
    ),
    "after a crash, and each worker runs a turn that one more would end": (
        wait_facts(seen_turn(crashes=1), queue=seen_queue(seen_worker(most_crashes=2))),
        Code.QUARANTINED, {"crashes": 1, "alone": False},
    ),
    "after a crash, and each worker runs a turn with one": (
        wait_facts(seen_turn(crashes=1), queue=seen_queue(CRASHED)),
        Code.NOT_BEGUN, {},
    ),
    "locked by a worker that is gone": (
        wait_facts(lock=replace(LOCK, worker_id="gone"), queue=seen_queue(FULL)),
        Code.LOCK_WITHOUT_ROW, {"worker_is_alive": False},
    ),
    "its wake-up is due, and slots are busy": (
        wait_facts(seen_turn(send_at=ago(60), sends=3), queue=seen_queue(FULL)),
        Code.NOT_SENT, {"since": ago(60), "placed": True},
    ),
    "its wake-up has just become due": (wait_facts(seen_turn(send_at=ago(20))), Code.NOT_BEGUN, {"next_at": ago(20)}),
    "its tenant has its share in one of two workers": (
        wait_facts(queue=seen_queue(FULL, seen_worker("free"))),
        Code.NOT_BEGUN, {},
    ),
    "its tenant has all slots, and no other tenant runs": (
        wait_facts(queue=seen_queue(replace(FULL, running_of_tenant=4), older_turn_count=7)),
        Code.SLOTS_BUSY, {"workers": 1, "slots": 4, "older": 7},
    ),
    "other tenants have all slots": (
        wait_facts(queue=seen_queue(seen_worker(running=4, busy=4), seen_worker("b", busy=4))),
        Code.SLOTS_BUSY, {"workers": 2, "slots": 8},
    ),
    "slots of a worker that shuts down are busy": (
        wait_facts(queue=seen_queue(seen_worker(), seen_worker("b", busy=4, draining=True))),
        Code.NOT_BEGUN, {},
    ),
    "behind a turn that waits for its retry": (
        wait_facts(head=replace(WAITS_FOR_RETRY, id=HEAD, seq=1)),
        Code.BEHIND, {"reason": Code.RETRY},
    ),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_a_state_has_its_one_reason(state: str) -> None:
    facts, code, decisive = STATES[state]

    reason = decide(facts, TERMS)

    found = {name: reason.facts[name] for name in decisive}
    inner = {name: one["code"] for name, one in found.items() if isinstance(one, dict)}
    assert (reason.code, found | inner) == (code, decisive)


@pytest.mark.parametrize(("share", "full"), [("all", False), (3, True), (4, False), ("fair", True)])
def test_the_share_of_a_tenant_is_that_of_the_setting(share: Any, full: bool) -> None:
    worker = seen_worker(running=4, running_of_tenant=3)

    found = decide(wait_facts(queue=seen_queue(worker)), replace(TERMS, tenant_share=share))

    assert (found.code is Code.TENANT_FULL) is full


@pytest.mark.parametrize(
    ("waits", "sends", "running", "busy", "code"),
    [
        pytest.param(30, 1, 3, 3, Code.TENANT_FULL, id="slot-kept-free"),
        pytest.param(1, 0, 3, 3, Code.NOT_BEGUN, id="just-come"),
        pytest.param(30, 0, 1, 1, Code.NOT_BEGUN, id="room"),
        pytest.param(30, 0, 4, 4, Code.SLOTS_BUSY, id="all-slots-run"),
        pytest.param(30, 0, 3, 4, Code.SLOTS_BUSY, id="all-slots-busy"),
        pytest.param(30, 4, 3, 3, Code.SENT_IN_VAIN, id="nobody-receives"),
    ],
)
def test_a_turn_that_waits_although_a_slot_is_free_is_a_sign_of_other_tenants(
    waits: float, sends: int, running: int, busy: int, code: Code
) -> None:
    worker = seen_worker(running=running, running_of_tenant=running, busy=busy)

    found = decide(wait_facts(seen_turn(created_at=ago(waits), sends=sends), queue=seen_queue(worker)), TERMS)

    assert found.code is code
