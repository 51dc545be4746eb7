"""`turnstile why` on the real tables and the real session lock: one reason, the right one in each state."""

from typing import Any
from uuid import uuid4

import pytest
import redis.asyncio
from inline_snapshot import snapshot

from tests.archive.archiving import end_turn
from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_failed
from tests.ops.invoke import NOBODY
from tests.ops.wording import wording
from tests.support.claims import claim_sessions, settle_one
from tests.support.factories import make_submission
from tests.support.tampered_turns import FRUITLESS, LOST, MARKED_AS_LOST, make_pending, make_running, tamper
from tests.support.waiting_turns import (
    RETRIED,
    SNOOZED,
    make_claimed,
    make_joining,
    make_scheduled,
    make_settled,
    make_worker,
)
from turnstile.archive.move import archive_sessions, read_cutoff
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.erasure.request import request_erasure
from turnstile.statements.cancel import cancel
from turnstile.statements.paused_queues import pause_queue
from turnstile.statements.submit import submit
from turnstile.turn.cancel_reason import CancelReason
from turnstile.worker.session_lock import name_lock

# --- the head may not begin yet


async def test_a_retry_waits_with_its_error_until_a_time(database: Database, settings: Settings, why: Any) -> None:
    turn = await make_settled(database, settings, "s", RETRIED)

    found = await why(turn)

    assert (found["reason"]["code"], found["reason"]["attempt"]) == ("retry", 1)
    assert "attempt 1 failed: TimeoutError: the model took too long" in found["lines"][2]
    assert "in 1d" in found["lines"][1]
    assert found["commands"] == [f"turnstile wake {turn}"]


async def test_a_snooze_waits_with_its_reason(database: Database, settings: Settings, why: Any) -> None:
    turn = await make_settled(database, settings, "s", SNOOZED)

    found = await why(turn)

    assert (found["reason"]["code"], found["reason"]["reason"]) == ("snoozed", "the model is being updated")
    assert found["commands"] == [f"turnstile wake {turn}"]


async def test_a_turn_is_scheduled_for_later(database: Database, settings: Settings, why: Any) -> None:
    turn = await make_scheduled(database, settings)

    found = await why(turn)

    assert (found["reason"]["code"], found["turn"]["seq"]) == ("scheduled", None)
    assert found["commands"] == [f"turnstile wake {turn}"]


async def test_a_parent_waits_for_its_children(database: Database, settings: Settings, why: Any) -> None:
    parent, child = await make_joining(database, settings)

    found = await why(parent)

    assert (found["reason"]["code"], found["reason"]["children"]) == ("joining", 1)
    assert [one["id"] for one in found["reason"]["open_children"]] == [str(child)]
    assert found["commands"] == [f"turnstile why {child}"]


# --- the head could begin


async def test_a_queue_is_paused(database: Database, settings: Settings, why: Any) -> None:
    turn = await make_pending(database, settings)
    await pause_queue(database, settings.queue, paused_by="ann@desk", reason="the model is down")

    found = await why(turn)

    assert (found["reason"]["code"], found["reason"]["by"]) == ("paused", "ann@desk")
    assert "has paused its queue" in found["lines"][1]
    assert "reason: the model is down" in found["lines"][2]
    assert found["commands"] == [f"turnstile queues resume {settings.queue}"]


async def test_no_live_worker_serves_the_queue(database: Database, settings: Settings, why: Any) -> None:
    turn = await make_pending(database, settings)
    never = await why(turn)
    await make_worker(database, settings)
    await tamper(settings, "UPDATE workers SET seen_at = now() - interval '1 h'")
    await make_worker(database, settings, "worker-b", draining=True)

    found = await why(turn)

    assert (never["reason"]["code"], never["reason"]["last_seen_at"]) == ("no-worker", None)
    assert (found["reason"]["code"], found["reason"]["draining"]) == ("no-worker", 1)
    assert found["commands"] == [f"turnstile worker --queue {settings.queue}"]


async def test_a_worker_is_alive_by_its_own_lease(database: Database, settings: Settings, why: Any) -> None:
    turn = await make_pending(database, settings)
    await make_worker(database, settings)
    await tamper(settings, "UPDATE workers SET lease_seconds = 600, seen_at = now() - interval '5 min'")
    patient = await why(turn)
    await tamper(settings, "UPDATE workers SET lease_seconds = 60")

    hasty = await why(turn)

    assert (patient["reason"]["code"], hasty["reason"]["code"]) == ("not-begun", "no-worker")


async def test_all_slots_are_busy_with_older_turns_before(database: Database, settings: Settings, why: Any) -> None:
    await make_pending(database, settings, "older")
    turn = await make_pending(database, settings)
    await make_worker(database, settings, slots=2, busy=2)

    found = await why(turn)

    assert (found["reason"]["code"], found["reason"]["slots"], found["reason"]["older"]) == ("slots-busy", 2, 1)
    assert "turns of its queue that have been due for longer: 1" in found["lines"][2]


async def test_a_tenant_has_its_share_of_the_slots(database: Database, settings: Settings, why: Any) -> None:
    await make_worker(database, settings, "worker-a")
    await make_claimed(database, settings, "running", "worker-a")
    turn = await make_pending(database, settings)

    found = await why(turn, TURNSTILE_TENANT_SLOTS="1")
    free = await why(turn, TURNSTILE_TENANT_SLOTS="2")

    assert (found["reason"]["code"], found["reason"]["running"]) == ("tenant-full", 1)
    assert free["reason"]["code"] == "not-begun"


async def test_a_lock_is_held_without_a_running_turn(
    database: Database, settings: Settings, why: Any, keys: redis.asyncio.Redis
) -> None:
    await make_worker(database, settings)
    turn = await make_pending(database, settings)
    lock = name_lock(settings, "t", "s", "worker-gone:abc-1")
    await keys.set(lock.key, lock.token, px=int(settings.lease_seconds * 1000))

    found = await why(turn)
    await keys.delete(lock.key)
    after = await why(turn)

    reason = found["reason"]
    assert (reason["code"], reason["key"], reason["worker_id"]) == ("lock-without-row", lock.key, "worker-gone")
    assert 0 < reason["seconds_left"] <= settings.lease_seconds
    assert (reason["worker_is_alive"], found["commands"]) == (False, [])
    assert after["reason"]["code"] == "not-begun"


async def test_a_lock_that_no_worker_has_set_hides_no_reason_and_is_named(
    database: Database, settings: Settings, keys: redis.asyncio.Redis, why: Any
) -> None:
    await make_worker(database, settings)
    turn = await make_pending(database, settings)
    lock = name_lock(settings, "t", "s", "attacker")
    await keys.set(lock.key, lock.token)

    found = await why(turn)

    assert (found["reason"]["code"], found["foreign_lock"]) == ("not-begun", lock.key)
    assert [line for line in found["lines"] if lock.key in line]


async def test_a_wake_up_is_due_and_no_relay_sends_it(database: Database, settings: Settings, why: Any) -> None:
    await make_worker(database, settings)
    turn, later = await make_pending(database, settings), await make_scheduled(database, settings, "later")
    await tamper(settings, "UPDATE turns SET send_at = now() - interval '1 h', execute_at = now() - interval '1 h'")

    found, unplaced = await why(turn), await why(later)

    assert (found["reason"]["code"], found["reason"]["placed"]) == ("not-sent", True)
    assert (unplaced["reason"]["code"], unplaced["reason"]["placed"]) == ("not-sent", False)
    assert found["commands"] == ["turnstile relay", f"turnstile wake {turn}"]
    assert unplaced["commands"] == ["turnstile relay"]


async def test_wake_ups_were_sent_and_no_worker_came(database: Database, settings: Settings, why: Any) -> None:
    await make_worker(database, settings)
    turn = await make_pending(database, settings)
    await tamper(settings, FRUITLESS)

    found = await why(turn)

    assert (found["reason"]["code"], found["reason"]["sends"]) == ("sent-in-vain", 9)
    assert "9 wake-ups brought no worker" in found["lines"][1]


# --- the head runs


async def test_a_turn_runs_under_a_valid_lease(database: Database, settings: Settings, why: Any) -> None:
    await make_worker(database, settings)
    turn = await make_running(database, settings)
    await tamper(settings, "UPDATE turns SET lease_until = now() + interval '1 h'")

    found = await why(turn)
    await cancel(database, "t", turn, CancelReason.USER)
    asked = await why(turn)

    assert (found["reason"]["code"], found["reason"]["worker_id"]) == ("running", "worker-a")
    assert found["reason"]["seen_at"] is not None
    assert found["commands"] == [f"turnstile cancel {turn}"]
    assert (asked["commands"], "asked to stop" in asked["lines"][-1]) == ([], True)


@pytest.mark.parametrize(("statement", "marked"), [(LOST, False), (MARKED_AS_LOST, True)], ids=["unmarked", "marked"])
async def test_a_lease_has_run_out(
    database: Database, settings: Settings, why: Any, statement: Any, marked: bool
) -> None:
    await make_worker(database, settings, "worker-b")
    turn = await make_running(database, settings)
    await tamper(settings, statement)

    found = await why(turn)
    await pause_queue(database, settings.queue, paused_by="ann", reason=None)
    paused = await why(turn)

    assert (found["reason"]["code"], found["reason"]["marked"]) == ("lost", marked)
    assert found["commands"] == ["turnstile doctor --fix" if marked else "turnstile relay"]
    assert (paused["reason"]["code"], paused["reason"]["obstacle"]["code"]) == ("lost", "paused")
    assert paused["commands"] == [f"turnstile queues resume {settings.queue}"]


# --- behind an earlier turn


async def test_an_earlier_turn_of_the_session_runs(database: Database, settings: Settings, why: Any) -> None:
    head = await make_running(database, settings)
    await tamper(settings, "UPDATE turns SET lease_until = now() + interval '1 h'")
    turn = await make_pending(database, settings)

    found = await why(turn)

    assert (found["reason"]["code"], found["reason"]["head"]["id"]) == ("behind", str(head))
    assert found["reason"]["reason"]["code"] == "running"
    assert "It runs in worker worker-a since" in found["lines"][2]
    assert found["commands"] == [f"turnstile cancel {head}"]


async def test_an_earlier_turn_waits_itself(database: Database, settings: Settings, why: Any) -> None:
    head = await make_settled(database, settings, "s", RETRIED)
    turn = await make_pending(database, settings)

    found, of_session = await why(turn), await why("s", "--tenant", "t")

    assert found["reason"]["reason"]["code"] == "retry"
    assert found["commands"] == [f"turnstile wake {head}"]
    assert (of_session["turn"]["id"], of_session["reason"]["code"]) == (str(head), "retry")


async def test_a_failed_turn_halts_the_session(database: Database, settings: Settings, why: Any) -> None:
    [failed] = await make_failed(database, settings, ["s"], halt=True)
    alone = await why("s", "--tenant", "t")
    turn = await make_pending(database, settings)

    found = [await why(which, "--tenant", "t") for which in (turn, failed, "s")]

    for one in (alone, *found):
        assert (one["reason"]["code"], one["reason"]["turn_id"]) == ("halted", str(failed))
        assert one["commands"] == [f"turnstile retry {failed}", f"turnstile skip {failed}"]


async def test_an_erasure_halts_the_session(database: Database, settings: Settings, why: Any) -> None:
    await end_turn(database, settings)
    await request_erasure(database, "t", "s", "ann@desk")
    alone = await why("s", "--tenant", "t")
    turn = await make_pending(database, settings)

    found = [await why(which, "--tenant", "t") for which in (turn, "s")]

    for one in (alone, *found):
        assert (one["reason"]["code"], one["reason"]["requested_by"]) == ("erasing", "ann@desk")
        assert one["commands"] == ["turnstile erase --tenant t --session s"]
    assert [one["turn"] and one["turn"]["id"] for one in (alone, *found)] == [None, str(turn), str(turn)]


# --- nothing waits


async def test_a_turn_has_ended(database: Database, settings: Settings, why: Any) -> None:
    [failed] = await make_failed(database, settings, ["failed"])
    [expired] = await make_failed(database, settings, ["expired"], error_class="expired")
    canceled, answered = [await make_pending(database, settings, name) for name in ("canceled", "answered")]
    await cancel(database, "t", canceled, CancelReason.USER)
    await settle_one(database, settings, *await claim_sessions(database, settings, "answered"))

    found = {turn: await why(turn) for turn in (failed, expired, canceled, answered)}

    assert {one["reason"]["code"] for one in found.values()} == {"ended"}
    assert "ValueError: it would not do" in found[failed]["lines"][2]
    assert found[failed]["commands"] == [f"turnstile redrive --turn {failed}"]
    assert found[expired]["lines"][1].startswith("It has expired: FAILED at")
    assert "why it was canceled: user" in found[canceled]["lines"][2]
    assert "SUCCEEDED" in found[answered]["lines"][1]
    assert [found[one]["commands"] for one in (canceled, answered)] == [[], []]


async def test_a_turn_and_a_session_in_the_archive_are_found(database: Database, settings: Settings, why: Any) -> None:
    [failed] = await make_failed(database, settings, ["s"])
    await tamper(
        settings,
        "UPDATE turns SET dead_lettered_at = now() - interval '60 d', finished_at = now() - interval '90 d', send_at = NULL",
    )
    await tamper(settings, "UPDATE sessions SET updated_at = now() - interval '90 d'")
    async for _ in archive_sessions(database, await read_cutoff(database, 60.0), failed=True):
        pass

    turn, session = await why(failed), await why("s", "--tenant", "t")

    assert (turn["reason"]["code"], turn["reason"]["archived"], turn["commands"]) == ("ended", True, [])
    assert (session["reason"]["code"], session["turn"]) == ("at-rest", None)


async def test_a_waiting_turn_whose_time_is_over_says_so(database: Database, settings: Settings, why: Any) -> None:
    turn = await make_pending(database, settings)
    await tamper(settings, "UPDATE turns SET expires_at = now() - interval '1 h'")

    found = await why(turn)

    assert found["expired_at"] is not None
    assert any("it still begins, but no retry follows" in line for line in found["lines"])


# --- the command


async def test_without_redis_the_rest_is_shown(database: Database, settings: Settings, why: Any) -> None:
    await make_worker(database, settings)
    turn = await make_pending(database, settings)

    found = await why(turn, REDIS_URL="redis://127.0.0.1:1/0")

    assert found["reason"]["code"] == "not-begun"
    assert "Redis does not respond" in found["lines"][-2]


async def test_people_get_the_lines_and_the_command_last(
    database: Database, settings: Settings, turnstile: Turnstile
) -> None:
    turn = await make_settled(database, settings, "s", RETRIED)

    ran = await turnstile("why", str(turn))

    assert wording(ran.out, TURN=turn, QUEUE=settings.queue) == snapshot("""\
turn TURN, session s of tenant t, seq 1, queue QUEUE: PENDING
It waits for its retry until TIME (AGE).
  attempt 1 failed: TimeoutError: the model took too long
to move it: turnstile wake TURN
""")


async def test_a_session_may_be_named_as_a_turn_is(database: Database, settings: Settings, why: Any) -> None:
    name = str(uuid4())
    turn = make_submission(settings.queue, name, tenant_id="default")
    await submit(database, [turn], resend_seconds=60)

    assert (await why(name))["turn"]["id"] == str(turn.turn_id)


async def test_what_is_not_there_ends_with_3_and_one_line(
    database: Database, settings: Settings, turnstile: Turnstile
) -> None:
    turn = await make_pending(database, settings)

    ran = [await turnstile("why", *words) for words in ((NOBODY,), ("s",), (str(turn), "--tenant", "other"))]
    wrong = await turnstile("why", "not an id")

    assert [one.code for one in ran] == [3, 3, 3]
    assert [one.err.count("\n") for one in ran] == [1, 1, 1]
    assert "tenant default has no session s" in ran[1].err
    assert wrong.code == 2
