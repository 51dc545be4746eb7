"""A trace as a tree, read by one recursive statement (G6)."""

from dataclasses import replace

import psycopg

from tests.archive.archiving import age, archive, claim_head, in_archive, settle_as
from tests.support.claims import settle_one
from tests.support.factories import make_claim, make_submission, make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.sessions.halted_session import retry
from turnstile.ops.turns.trace_tree import find_trace, read_trace
from turnstile.statements.claim import claim
from turnstile.statements.revive import revive
from turnstile.statements.submit import ParentClaim, Submission, submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import TraceContext
from turnstile.turn.settlement import AttemptOutcome, JoinPolicy, Settlement
from turnstile.turn.status import TurnStatus

TRACE = "a" * 32


async def submit_span(database: Database, settings: Settings, span: str, parent: str | None) -> Submission:
    trace = TraceContext(TRACE, span * 16, parent and parent * 16)
    wanted = replace(make_submission(settings.queue, f"session-{span}"), trace=trace)
    await submit(database, [wanted], resend_seconds=60)
    return wanted


async def test_children_follow_their_parents(database: Database, settings: Settings) -> None:
    for span, parent in (("1", "e"), ("2", "1"), ("3", "1"), ("4", "2"), ("5", None)):
        await submit_span(database, settings, span, parent)

    spans = await read_trace(database, TRACE)

    assert [(span.span_id[0], span.depth) for span in spans] == [("1", 0), ("2", 1), ("4", 2), ("3", 1), ("5", 0)]


async def test_spans_that_claim_each_other_as_parents_do_not_loop(database: Database, settings: Settings) -> None:
    await submit_span(database, settings, "1", None)
    await submit_span(database, settings, "2", "3")
    await submit_span(database, settings, "3", "2")

    assert [span.span_id[0] for span in await read_trace(database, TRACE)] == ["1"]


async def start_child(database: Database, settings: Settings, parent: Submission, span: str) -> Submission:
    turn = (await claim(database, make_terms(settings), [make_claim(parent.session_id)]))[0]
    assert isinstance(turn, ClaimedTurn)
    child = replace(
        make_submission(settings.queue, f"session-{span}"),
        trace=TraceContext(TRACE, span * 16, turn.span_id),
        parent=ParentClaim(turn.id, turn.fence, "dig"),
    )
    await submit(database, [child], resend_seconds=60)
    joins = Settlement(
        status=TurnStatus.PENDING, outcome=AttemptOutcome.JOINED, refund=True, after_seconds=900.0,
        joining=(child.turn_id,), join_policy=JoinPolicy.ALL,
    )  # fmt: skip
    await settle_one(database, settings, turn, joins)
    return child


async def test_a_parent_shows_its_join_and_a_child_its_call(database: Database, settings: Settings) -> None:
    parent = await submit_span(database, settings, "1", None)
    child = await start_child(database, settings, parent, "2")

    waiting, started = await read_trace(database, TRACE)

    assert (waiting.id, waiting.joining, waiting.join_policy) == (parent.turn_id, [child.turn_id], "all")
    assert (started.id, started.child_key, started.kind, started.depth) == (child.turn_id, "dig", "turn", 1)


# --- a redrive starts another trace, and the earlier one is kept

REDRIVEN = "b" * 32
AGAIN = "c" * 32


async def fail(database: Database, settings: Settings, session: str, *, halt: bool = False) -> ClaimedTurn:
    turn = await claim_head(database, settings, session)
    await settle_as(database, settings, turn, TurnStatus.FAILED, halt=halt)
    return turn


async def redrive(database: Database, turn: ClaimedTurn, trace: str) -> None:
    given = [TraceContext(trace, "f" * 16, None)]
    revived = await revive(
        database, [(turn.id, turn.generation)], given, expires_in_seconds=[60.0], resend_seconds=60.0
    )
    assert len(revived) == 1


async def test_a_redriven_turn_is_found_by_the_trace_of_each_of_its_runs(
    database: Database, settings: Settings
) -> None:
    submission = await submit_span(database, settings, "1", "e")
    await redrive(database, await fail(database, settings, submission.session_id), REDRIVEN)
    await redrive(database, await fail(database, settings, submission.session_id), AGAIN)

    (first,), (second,), (third,) = [await read_trace(database, trace) for trace in (TRACE, REDRIVEN, AGAIN)]

    assert [span.id for span in (first, second, third)] == [submission.turn_id] * 3
    assert [(span.span_id, span.parent_span_id) for span in (first, second, third)] == [
        ("1" * 16, "e" * 16), ("f" * 16, None), ("f" * 16, None),
    ]  # fmt: skip
    assert [span.other_traces for span in (first, second, third)] == [
        [REDRIVEN, AGAIN], [TRACE, AGAIN], [TRACE, REDRIVEN],
    ]  # fmt: skip
    # Each shows the present state: there is one turn.
    assert {(span.status, span.generation) for span in (first, second, third)} == {(TurnStatus.PENDING, 3)}
    assert await find_trace(database, submission.turn_id) == AGAIN


async def test_a_halted_turn_that_is_retried_keeps_its_earlier_trace(database: Database, settings: Settings) -> None:
    submission = await submit_span(database, settings, "1", None)
    await fail(database, settings, submission.session_id, halt=True)

    new = TraceContext(REDRIVEN, "f" * 16, None)
    assert await retry(database, submission.turn_id, new, expires_in_seconds=60.0, requested_by="who") is not None

    (span,) = await read_trace(database, TRACE)
    assert (span.id, span.span_id, span.other_traces) == (submission.turn_id, "1" * 16, [REDRIVEN])


async def test_a_redriven_child_is_listed_once(database: Database, settings: Settings) -> None:
    parent = await submit_span(database, settings, "1", None)
    child = await start_child(database, settings, parent, "2")
    await redrive(database, await fail(database, settings, child.session_id), REDRIVEN)

    found = [(span.id, span.depth, span.span_id[0], span.other_traces) for span in await read_trace(database, TRACE)]

    assert found == [(parent.turn_id, 0, "1", []), (child.turn_id, 1, "2", [REDRIVEN])]


async def test_a_redriven_parent_precedes_its_child_in_both_traces(database: Database, settings: Settings) -> None:
    parent = await submit_span(database, settings, "1", None)
    child = await start_child(database, settings, parent, "2")
    await database.fetch("UPDATE turns SET execute_at = now() WHERE id = %(id)s", {"id": parent.turn_id})
    await redrive(database, await fail(database, settings, parent.session_id), REDRIVEN)

    for trace in (TRACE, REDRIVEN):
        found = [(span.id, span.depth) for span in await read_trace(database, trace)]
        assert found == [(parent.turn_id, 0), (child.turn_id, 1)], trace


async def test_an_archived_turn_is_found_by_its_earlier_trace(database: Database, settings: Settings) -> None:
    submission = await submit_span(database, settings, "1", None)
    await redrive(database, await fail(database, settings, submission.session_id), REDRIVEN)
    await fail(database, settings, submission.session_id)
    await age(database)
    # The record of the earlier run has the creation time, which `age` has changed in the turn.
    await database.fetch("UPDATE turn_traces SET turn_created_at = (SELECT created_at FROM turns)", {})

    await archive(database, failed=True)

    assert await in_archive(database) == [submission.turn_id]
    (span,) = await read_trace(database, TRACE)
    assert (span.id, span.span_id, span.other_traces) == (submission.turn_id, "1" * 16, [REDRIVEN])


async def test_another_turn_with_the_id_of_an_archived_one_does_not_get_its_traces(
    database: Database, settings: Settings
) -> None:
    """Clients choose ids, and an id in the archive is free again."""
    submission = await submit_span(database, settings, "1", None)
    await redrive(database, await fail(database, settings, submission.session_id), REDRIVEN)
    await database.fetch("UPDATE turns SET created_at = created_at + interval '1 hour'", {})

    assert await read_trace(database, TRACE) == []
    assert [span.other_traces for span in await read_trace(database, REDRIVEN)] == [[]]


async def test_a_refused_redrive_records_no_trace(database: Database, settings: Settings) -> None:
    submission = await submit_span(database, settings, "1", None)
    turn = await fail(database, settings, submission.session_id)
    await redrive(database, turn, REDRIVEN)

    new = [TraceContext(AGAIN, "f" * 16, None)]
    assert (
        await revive(database, [(turn.id, turn.generation)], new, expires_in_seconds=[60.0], resend_seconds=60.0) == []
    )

    assert await database.fetch("SELECT trace_id FROM turn_traces", {}) == [{"trace_id": TRACE}]


def test_earlier_traces_are_found_by_an_index(settings: Settings) -> None:
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        connection.execute("SET enable_seqscan = off")
        plan = connection.execute("EXPLAIN SELECT * FROM turn_traces WHERE trace_id = 'x'").fetchall()

    assert "turn_traces_trace_id" in str(plan)
