"""`turnstile list`, `status`, `dlq show` and `cancel`: what they print, what they change, how they end."""

import asyncio
import json
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from inline_snapshot import snapshot
from redis.asyncio import Redis

from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_failed
from tests.ops.invoke import NOBODY
from tests.ops.wording import wording
from tests.support.claims import claim_sessions, settle_one
from tests.support.factories import make_submission
from tests.support.tampered_turns import make_pending, tamper
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.turns import operator_lists
from turnstile.statements.submit import submit
from turnstile.streaming.event import name_stream


async def test_turns_of_all_tenants_are_listed_and_filtered(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.turns.operator_lists.PAGE", 2)
    await submit(database, [make_submission(settings.queue, "a")], resend_seconds=60)
    await submit(database, [make_submission(settings.queue, "b", tenant_id="u")], resend_seconds=60)
    await make_failed(database, settings, ["c"])

    every = await turnstile("list", "--json")
    failed = await turnstile("list", "--json", "--status", "failed")
    tenant = await turnstile("list", "--json", "--tenant", "u", "--queue", settings.queue, "--limit", "1")

    assert [turn["session_id"] for turn in json.loads(every.out)["turns"]] == ["c", "b", "a"]
    assert [turn["session_id"] for turn in json.loads(failed.out)["turns"]] == ["c"]
    assert [turn["session_id"] for turn in json.loads(tenant.out)["turns"]] == ["b"]
    assert "there may be more" not in every.err


async def test_the_turns_of_a_session_stand_in_its_order_whatever_their_ids_are(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    batch = [make_submission(settings.queue, "a") for _ in range(5)]
    later_ids_first = [
        replace(one, turn_id=id_)
        for one, id_ in zip(batch, sorted((one.turn_id for one in batch), reverse=True), strict=True)
    ]
    await submit(database, later_ids_first, resend_seconds=60)

    listed = json.loads((await turnstile("list", "--json")).out)["turns"]

    assert [turn["seq"] for turn in listed] == [5, 4, 3, 2, 1]


async def test_the_time_out_and_the_deadline_of_a_turn_are_shown(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    own = await make_pending(database, settings, "a", timeout_seconds=90.0)
    other = await make_pending(database, settings, "b")
    await claim_sessions(database, settings, "a")

    listed = await turnstile("list")
    shown = [json.loads((await turnstile("status", str(turn), "--json")).out)["turn"] for turn in (own, other)]
    lines = (await turnstile("status", str(other))).out.splitlines()

    by_id = {line.split()[0]: line for line in listed.out.splitlines()}
    assert " 1m30s " in by_id[str(own)]
    assert " the handler's " in by_id[str(other)]
    started, deadline = (datetime.fromisoformat(shown[0][name]) for name in ("started_at", "deadline_at"))
    assert deadline - started == timedelta(seconds=90)
    assert (shown[1]["timeout_seconds"], shown[1]["deadline_at"]) == (None, None)
    assert any(line.split() == ["timeout_seconds", "the", "handler's,", "or", "the", "queue's"] for line in lines)


async def test_a_limit_keeps_the_turns_that_a_tenant_submitted_last_whatever_their_ids_are(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.turns.operator_lists.PAGE", 2)
    highest_first = sorted((uuid4() for _ in range(6)), reverse=True)
    for place, turn_id in enumerate(highest_first):
        await submit(
            database, [replace(make_submission(settings.queue, f"s{place}"), turn_id=turn_id)], resend_seconds=60
        )
    await tamper(settings, "UPDATE turns SET status = 'SUCCEEDED', finished_at = now() WHERE session_id = 's4'")

    async def listed(*words: str) -> list[str]:
        found = await turnstile("list", "--json", "--tenant", "t", *words)
        return [turn["session_id"] for turn in json.loads(found.out)["turns"]]

    assert await listed("--limit", "1") == ["s5"]
    assert await listed("--limit", "5") == ["s5", "s4", "s3", "s2", "s1"]
    assert await listed("--limit", "3", "--status", "pending") == ["s5", "s3", "s2"]


async def test_the_time_of_the_submit_narrows_the_list_of_a_tenant(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    for minutes in (10, 90, 150):
        await make_pending(database, settings, f"{minutes}m")
    await tamper(settings, "UPDATE turns SET created_at = now() - session_id::interval")

    found = {}
    for words in ("", "--since 1h", "--until 1h", "--since 2h --until 1h"):
        listed = json.loads((await turnstile("list", "--json", "--tenant", "t", *words.split())).out)["turns"]
        found[words] = [turn["session_id"] for turn in listed]

    assert list(found.values()) == [["10m", "90m", "150m"], ["10m"], ["90m", "150m"], ["90m"]]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--tenant t --since 1h --until 2h", "--since must reach further back"),
        ("--since 1h", "need --tenant"),
        ("--until 1h", "need --tenant"),
    ],
)
async def test_times_that_can_not_narrow_a_list_are_refused(turnstile: Turnstile, words: str, reason: str) -> None:
    refused = await turnstile("list", *words.split())

    assert refused.code == ExitCode.USAGE
    assert reason in refused.err


async def test_a_list_that_takes_too_long_says_how_to_narrow_it(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = "SELECT pg_sleep(60)::text AS output,"
    make = operator_lists._list
    monkeypatch.setattr(operator_lists, "_list", lambda *given: make(*given).replace("SELECT", slow, 1))
    monkeypatch.setitem(Database.__init__.__kwdefaults__, "statement_timeout_seconds", 0.2)
    await submit(database, [make_submission(settings.queue, "a")], resend_seconds=60)

    ran = await turnstile("list", "--status", "pending")

    assert (ran.code, len(ran.err.splitlines())) == (1, 1), ran.err
    assert "--session" in ran.err


async def test_the_text_of_a_turn_is_shown_only_on_request(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    submission = make_submission(settings.queue, "a", "a canary sings")
    await submit(database, [submission], resend_seconds=60)
    turn = str(submission.turn_id)

    ran = [
        await turnstile(*words)
        for words in (("status", turn), ("status", turn, "--json"), ("status", turn, "--show-text"), ("list",))
    ]

    assert ["canary" in one.out for one in ran] == [False, False, True, False]
    assert json.loads(ran[1].out)["turn"]["status"] == "PENDING"


async def test_dlq_show_names_attempts_and_error_and_how_the_turn_can_run_again(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    (failed,) = await make_failed(database, settings, ["a"])
    (halting,) = await make_failed(database, settings, ["b"], halt=True)
    waiting = make_submission(settings.queue)
    await submit(database, [waiting], resend_seconds=60)

    status = await turnstile("status", str(failed), "--json")
    shown = [await turnstile("dlq", "show", str(one)) for one in (failed, halting, waiting.turn_id, NOBODY)]

    (attempt,) = json.loads(status.out)["attempts"]
    assert (attempt["outcome"], attempt["error_class"]) == ("failed", "ValueError")
    assert [ran.code for ran in shown] == [0, 0, 0, 3]
    assert "it would not do" in shown[0].out
    names = {"FAILED": failed, "HALTING": halting, "WAITING": waiting.turn_id, "UNKNOWN": NOBODY}
    assert [wording(ran.err, **names) for ran in shown] == snapshot(
        [
            "run it again: turnstile redrive --turn FAILED\n",
            "HALTING is FAILED and halts its session: see turnstile retry HALTING and turnstile skip HALTING\n",
            "WAITING is PENDING\n",
            "turnstile: there is no turn UNKNOWN\n",
        ]
    )


async def test_status_waits_for_the_end_and_its_exit_code_is_that_of_the_turn(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    submission = make_submission(settings.queue, "a")
    await submit(database, [submission], resend_seconds=60)
    (failed,) = await make_failed(database, settings, ["b"])
    turn = str(submission.turn_id)

    too_short = await turnstile("status", turn, "--wait", "0.2", "--json")
    waiting = asyncio.create_task(turnstile("status", turn, "--wait", "30", "--json"))
    await settle_one(database, settings, *await claim_sessions(database, settings, "a"))
    ended = await waiting
    otherwise, unknown, at_once = [
        await turnstile("status", *words)
        for words in ((str(failed), "--wait", "30"), (str(uuid4()), "--wait", "30"), (str(failed),))
    ]

    assert [json.loads(one.out)["turn"]["status"] for one in (too_short, ended)] == ["PENDING", "SUCCEEDED"]
    assert [one.code for one in (too_short, ended, otherwise, unknown, at_once)] == [1, 0, 1, 3, 0]
    assert "FAILED" in otherwise.out


async def test_cancel_ends_a_waiting_turn_wakes_the_next_and_is_refused_for_one_that_ended(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    first, second = make_submission(settings.queue), make_submission(settings.queue)
    await submit(database, [first, second], resend_seconds=60)
    (failed,) = await make_failed(database, settings, ["z"])

    ran = await turnstile("cancel", str(first.turn_id), "--yes", "--json")
    again, late, unknown = [await turnstile("cancel", str(one), "--yes") for one in (first.turn_id, failed, uuid4())]

    assert (ran.code, json.loads(ran.out)["status"]) == (0, "CANCELED")
    assert (again.code, late.code, unknown.code) == (0, 1, 3)
    (message,) = await queues.receive(settings.queue, 10)
    assert str(second.turn_id) in message.body


@pytest.mark.parametrize("named", ["turn", "session"])
async def test_a_cancel_notifies_the_watchers_of_a_waiting_turn(
    turnstile: Turnstile, database: Database, settings: Settings, named: str
) -> None:
    submission = make_submission(settings.queue, "a")
    await submit(database, [submission], resend_seconds=60)
    channel = name_stream(settings.redis_prefix, submission.tenant_id, "a", submission.turn_id)
    words = (str(submission.turn_id), "--yes") if named == "turn" else ("--session", "a", "--yes")

    async with Redis.from_url(settings.redis_url, decode_responses=True) as client, client.pubsub() as watching:
        await watching.subscribe(channel)
        await watching.get_message(timeout=30)
        await turnstile("cancel", *words)
        heard = await watching.get_message(timeout=30)

    assert (heard["channel"], heard["data"]) == (channel, "end")
