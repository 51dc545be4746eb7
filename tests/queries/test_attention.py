"""What needs an operator, according to the tables: new failures, halted sessions, and the known dead letters."""

import asyncio
import re
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
import structlog.testing

from tests.ops.dead_turns import make_failed
from tests.statements.plans.touched import explain
from tests.support.claims import submit_turns
from tests.support.probes import until
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.config.settings import Settings
from turnstile.ops.sessions.halted_session import retry, skip
from turnstile.queries.attention import ATTENTION, Attention, read_attention
from turnstile.relay.reports.attention_metric import FIRST_SECONDS, LATELY_SECONDS, report_attention
from turnstile.statements.redrive_audit import begin
from turnstile.statements.revive import revive
from turnstile.turn.identifiers import TraceContext

CALM: dict[str, Any] = {
    "failed_lately": 0, "halted": 0, "halted_lately": 0, "halted_seconds": 0.0, "letters": 0, "untouched_seconds": 0.0,
}  # fmt: skip


async def attention(database: Database, *, lately_seconds: float = 300.0) -> Attention:
    (found,) = await read_attention(database, ["turns"], lately_seconds=lately_seconds)
    return found


async def change(database: Database, what: LiteralString, turn_id: UUID | None = None) -> None:
    await database.fetch(f"UPDATE turns SET {what} WHERE id = coalesce(%(id)s, id)", {"id": turn_id})


async def lettered(database: Database, settings: Settings, *sessions: str, **more: Any) -> list[UUID]:
    """FAILED turns whose dead letters were sent."""
    failed = await make_failed(database, settings, list(sessions), **more)
    for turn_id in failed:
        await change(database, "send_at = NULL, dead_lettered_at = now()", turn_id)
    return failed


async def test_a_queue_without_failures_needs_no_operator(database: Database) -> None:
    assert await attention(database) == Attention(queue="turns", **CALM)


@pytest.mark.parametrize("fact", ["failed_lately", "halted", "untouched_seconds"])
def test_each_fact_alone_needs_an_operator(fact: str) -> None:
    assert Attention(queue="turns", **{**CALM, fact: 1}).needs_operator


# --- failures


async def test_final_failures_are_counted_from_their_rows_while_they_are_new(
    database: Database, settings: Settings
) -> None:
    """Without a log line: a worker may be killed between the commit and its line. Also a failure without a dead letter."""
    old, _, quiet = await make_failed(database, settings, ["a", "b", "c"])
    await change(database, "finished_at = now() - interval '301 s'", old)
    await change(database, "send_at = NULL, error_class = 'Reject'", quiet)

    found = await attention(database, lately_seconds=300.0)

    assert (found.failed_lately, found.letters) == (2, 0)


# --- halted sessions


async def test_a_failure_that_halts_its_session_counts_as_a_halt_alone(database: Database, settings: Settings) -> None:
    await make_failed(database, settings, ["a", "b"], halt=True)
    await make_failed(database, settings, ["c"])

    found = await attention(database)

    assert (found.failed_lately, found.halted_lately) == (1, 2)


async def test_an_old_halt_hides_no_new_failure(database: Database, settings: Settings) -> None:
    [old] = await make_failed(database, settings, ["a"], halt=True)
    await change(database, "finished_at = now() - interval '2 hours'", old)
    await make_failed(database, settings, ["b"])

    found = await attention(database)

    assert (found.failed_lately, found.halted_lately) == (1, 0)


async def test_a_halted_session_is_counted_for_as_long_as_it_is_halted(database: Database, settings: Settings) -> None:
    first, _ = await make_failed(database, settings, ["a", "b"], halt=True)
    await change(database, "finished_at = now() - interval '2 hours'", first)

    found = await attention(database)

    assert (found.halted, found.halted_lately) == (2, 1)
    assert 7200 <= found.halted_seconds < 7260


@pytest.mark.parametrize("way", ["retry", "skip"])
async def test_a_resumed_session_is_not_counted(database: Database, settings: Settings, way: str) -> None:
    [turn_id] = await make_failed(database, settings, ["a"], halt=True)

    if way == "retry":
        trace = TraceContext("a" * 32, "b" * 16, None)
        assert await retry(database, turn_id, trace, expires_in_seconds=60.0, requested_by="who") is not None
    else:
        assert await skip(database, turn_id, requested_by="who") is not None

    found = await attention(database)
    assert (found.halted, found.halted_lately, found.halted_seconds) == (0, 0, 0.0)


async def test_a_session_that_is_halted_by_hand_is_stuck_and_not_halted(database: Database, settings: Settings) -> None:
    """No command resumes it: the doctor reports it."""
    [turn_id] = await submit_turns(database, settings, "one")
    await database.fetch("UPDATE sessions SET halted_by = %(id)s", {"id": turn_id})

    [found] = await read_attention(database, [settings.queue], lately_seconds=300.0)

    assert found.halted == 0


# --- known dead letters


async def test_a_sent_letter_is_known_and_an_owed_one_is_not(database: Database, settings: Settings) -> None:
    await lettered(database, settings, "a", "b")
    await make_failed(database, settings, ["c"])

    assert (await attention(database)).letters == 2


async def test_a_letter_that_sqs_has_dropped_is_not_known(database: Database, settings: Settings) -> None:
    old, young = await lettered(database, settings, "a", "b")
    await change(database, "dead_lettered_at = now() - interval '16 days'", old)
    # Skipped late: the failure is old, its letter is not.
    await change(database, "finished_at = now() - interval '40 days'", young)

    assert (await attention(database)).letters == 1


async def test_the_letters_of_a_redrive_that_has_not_swept_are_known(database: Database, settings: Settings) -> None:
    await lettered(database, settings, "a")
    record = await begin(database, requested_by="who", queue=None, wanted={})
    await record.note([uuid4(), uuid4()])
    other = await begin(database, requested_by="who", queue="bulk", wanted={})
    await other.note([uuid4()])

    assert (await attention(database)).letters == 3


async def test_the_letters_of_a_redrive_that_never_ended_are_known_for_a_day(database: Database) -> None:
    """Its process was killed, and its sweep never comes."""
    record = await begin(database, requested_by="who", queue=None, wanted={})
    await record.note([uuid4()])
    known: list[int | None] = []

    for hours in (23, 25):
        await database.fetch(
            "UPDATE redrives SET started_at = now() - make_interval(hours => %(hours)s)", {"hours": hours}
        )
        known.append((await attention(database)).letters)

    assert known == [1, 0]


async def test_the_letters_of_a_redrive_are_known_for_ten_minutes_after_its_end(database: Database) -> None:
    """SQS counts approximately, and with a delay."""
    record = await begin(database, requested_by="who", queue=None, wanted={})
    await record.note([uuid4(), uuid4()])
    await record.finish()
    known: list[int | None] = []

    for minutes in (9, 11):
        await database.fetch(
            "UPDATE redrives SET finished_at = now() - make_interval(mins => %(mins)s)", {"mins": minutes}
        )
        known.append((await attention(database)).letters)

    assert known == [2, 0]


async def test_beyond_its_bound_the_number_of_letters_is_unknown(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that is too small would raise a false alert."""
    monkeypatch.setattr("turnstile.queries.attention.MOST", 2)
    await lettered(database, settings, "a", "b", "c")
    assert (await attention(database)).letters is None

    await change(database, "finished_at = now() - interval '20 days', dead_lettered_at = now() - interval '20 days'")

    assert (await attention(database)).letters == 0


# --- until somebody has dealt with it


async def test_a_dead_letter_is_untouched_until_its_turn_is_redriven(database: Database, settings: Settings) -> None:
    old, _ = await lettered(database, settings, "a", "b")
    await change(database, "dead_lettered_at = now() - interval '2 days'", old)

    found = await attention(database)
    assert 172_800 <= found.untouched_seconds < 172_860
    assert found.needs_operator

    trace = TraceContext("a" * 32, "b" * 16, None)
    assert await revive(database, [(old, 1)], [trace], expires_in_seconds=[60.0], resend_seconds=60.0)

    assert 0 < (await attention(database)).untouched_seconds < 60


async def test_a_failure_without_a_dead_letter_waits_for_nobody(database: Database, settings: Settings) -> None:
    await make_failed(database, settings, ["a"])
    await change(database, "send_at = NULL, finished_at = now() - interval '2 days'")

    found = await attention(database)

    assert found == Attention(queue="turns", **CALM)
    assert not found.needs_operator


async def test_a_child_that_its_parent_has_started_again_waits_for_nobody(
    database: Database, settings: Settings
) -> None:
    parent, child, successor = await lettered(database, settings, "p", "c", "d")
    for turn_id in (child, successor):
        await database.fetch(
            "UPDATE turns SET parent_turn_id = %(parent)s, child_key = 'k' WHERE id = %(id)s",
            {"parent": parent, "id": turn_id},
        )
    await change(database, "created_at = created_at - interval '1 hour'", child)
    await change(database, "dead_lettered_at = now() - interval '2 days'", child)
    assert (await attention(database)).untouched_seconds < 60

    await change(database, "dead_lettered_at = now() - interval '2 days'", successor)

    assert (await attention(database)).untouched_seconds >= 172_800


# --- queues and cost


async def test_each_queue_is_counted_separately(database: Database, settings: Settings) -> None:
    await lettered(database, settings, "a", queue="bulk")
    await make_failed(database, settings, ["b"], halt=True)

    found = await read_attention(database, ["turns", "bulk", "empty"], lately_seconds=300.0)

    assert [(one.queue, one.failed_lately, one.halted, one.letters) for one in found] == [
        ("bulk", 1, 0, 1), ("empty", 0, 0, 0), ("turns", 0, 1, 0),
    ]  # fmt: skip


def fill(connection: "psycopg.Connection[Any]", many: int) -> None:
    connection.execute(
        "INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, expires_at, trace_id, span_id, finished_at,"
        " dead_lettered_at) SELECT gen_random_uuid(), 't', 's' || g, 1, 'turns', 'FAILED', now(), md5(g::text), 's',"
        " now() - g * interval '1 s', now() FROM generate_series(1, %s) g",
        [many],
    )


def test_the_scan_is_by_the_indexes_and_reads_no_more_than_its_bound(settings: Settings) -> None:
    with psycopg.connect(conninfo(settings.database, "test", pinned=True), autocommit=True) as connection:
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        fill(connection, 2_000)
        connection.execute("ANALYZE turns")
        text = explain(connection, ATTENTION)

    assert re.search(r"Limit\n +-> +Index Scan Backward using turns_failed_at on turns t", text), text
    assert re.search(r"(using|on) sessions_halted", text), text
    assert re.search(r"Index Scan using turns_pkey on turns h\w*\n +Index Cond: \(id = s.halted_by\)", text), text
    assert re.search(r"Limit\n +-> +Index Scan Backward using redrives_pkey on redrives", text), text
    assert "Seq Scan" not in text, text


# --- the log


async def logged(database: Database, enough: int, **how: Any) -> list[dict[str, Any]]:
    stopping = asyncio.Event()
    with structlog.testing.capture_logs() as lines:
        reporting = asyncio.create_task(report_attention(database, ["turns", "bulk"], stopping, **how))
        await until(lambda: len(lines) >= enough)
    stopping.set()
    await reporting
    return [dict(line) for line in lines]


async def test_each_queue_gets_a_log_line_also_without_failures(database: Database, settings: Settings) -> None:
    await make_failed(database, settings, ["a"], halt=True)

    calm, halted = (await logged(database, 2))[:2]

    assert calm == {"event": "queue.attention", "log_level": "info", "queue": "bulk", **CALM}
    assert halted.pop("halted_seconds") >= 0
    assert halted == {
        "event": "queue.attention", "log_level": "warning", "queue": "turns", "failed_lately": 0, "halted": 1,
        "halted_lately": 1, "letters": 0, "untouched_seconds": 0.0,
    }  # fmt: skip


async def test_the_first_report_of_a_process_looks_further_back(database: Database, settings: Settings) -> None:
    """While relays are replaced, none may have run."""
    assert LATELY_SECONDS < FIRST_SECONDS
    await make_failed(database, settings, ["a"])
    await change(database, f"finished_at = now() - interval '{(LATELY_SECONDS + FIRST_SECONDS) / 2} s'")

    lines = [line for line in await logged(database, 4, every_seconds=0.01) if line["queue"] == "turns"]

    assert [line["failed_lately"] for line in lines[:2]] == [1, 0]


async def test_a_report_after_an_outage_covers_the_outage(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("turnstile.relay.reports.attention_metric.monotonic", lambda: clock[0])
    await make_failed(database, settings, ["a"])
    asked: list[float] = []

    async def note(given: Database, queues: list[str], *, lately_seconds: float) -> list[Attention]:
        asked.append(lately_seconds)
        clock[0] += 1000.0 if len(asked) == 2 else 60.0
        if len(asked) == 2:
            raise psycopg.OperationalError("for the test")
        return []

    monkeypatch.setattr("turnstile.relay.reports.attention_metric.read_attention", note)
    stopping = asyncio.Event()
    reporting = asyncio.create_task(report_attention(database, ["turns"], stopping, every_seconds=0.0))
    await until(lambda: len(asked) >= 4)
    stopping.set()
    await reporting

    # The second report failed for a thousand seconds: the third covers them, the minute since the first, and a minute more.
    assert asked[:2] == [FIRST_SECONDS, LATELY_SECONDS]
    assert asked[2] == 1120.0
    assert asked[3] == LATELY_SECONDS
