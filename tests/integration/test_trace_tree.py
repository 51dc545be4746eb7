"""A trace as a tree, read by one recursive statement (G6)."""

from dataclasses import replace

from tests.factories import make_claim, make_submission, make_terms
from tests.integration.test_claim import settle_one
from turns.claim import claim
from turns.claimed_turn import ClaimedTurn
from turns.database import Database
from turns.identifiers import TraceContext
from turns.settings import Settings
from turns.settlement import AttemptOutcome, JoinPolicy, Settlement
from turns.status import TurnStatus
from turns.submission import ParentClaim, Submission, submit
from turns.trace_tree import find_trace, read_trace

TRACE = "a" * 32


async def submit_span(database: Database, settings: Settings, span: str, parent: str | None) -> Submission:
    made = make_submission(settings.queue, f"session-{span}")
    wanted = Submission(
        **{
            **{name: getattr(made, name) for name in Submission.__dataclass_fields__},
            "trace": TraceContext(TRACE, span * 16, parent and parent * 16),
        }
    )
    await submit(database, [wanted], net_seconds=60)
    return wanted


async def test_children_stand_under_their_parents(database: Database, settings: Settings) -> None:
    for span, parent in (("1", "e"), ("2", "1"), ("3", "1"), ("4", "2"), ("5", None)):
        await submit_span(database, settings, span, parent)

    spans = await read_trace(database, TRACE)

    assert [(span.span_id[0], span.depth) for span in spans] == [("1", 0), ("2", 1), ("4", 2), ("3", 1), ("5", 0)]


async def test_a_trace_is_found_by_any_of_its_turns(database: Database, settings: Settings) -> None:
    turn = await submit_span(database, settings, "1", None)

    assert await find_trace(database, turn.turn_id) == TRACE


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
    await submit(database, [child], net_seconds=60)
    joins = Settlement(
        status=TurnStatus.PENDING, outcome=AttemptOutcome.JOINED, refund=True, after_seconds=900.0,
        joining=(child.turn_id,), join_policy=JoinPolicy.ALL,
    )  # fmt: skip
    await settle_one(database, settings, turn, joins)
    return child


async def test_a_parent_says_what_it_waits_for_and_a_child_by_which_call_it_came(
    database: Database, settings: Settings
) -> None:
    parent = await submit_span(database, settings, "1", None)
    child = await start_child(database, settings, parent, "2")

    waiting, started = await read_trace(database, TRACE)

    assert (waiting.id, waiting.joining, waiting.join_policy) == (parent.turn_id, [child.turn_id], "all")
    assert (started.id, started.child_key, started.kind, started.depth) == (child.turn_id, "dig", "turn", 1)


async def test_a_child_stands_under_its_parent_also_when_that_has_begun_another_trace(
    database: Database, settings: Settings
) -> None:
    parent = await submit_span(database, settings, "1", None)
    child = await start_child(database, settings, parent, "2")
    await database.fetch("UPDATE turns SET trace_id = %(t)s, span_id = 'f' WHERE seq = 1 AND parent_turn_id IS NULL",
                         {"t": "b" * 32})  # fmt: skip

    assert [(span.id, span.depth) for span in await read_trace(database, "b" * 32)] == [
        (parent.turn_id, 0),
        (child.turn_id, 1),
    ]
    assert [(span.id, span.depth) for span in await read_trace(database, TRACE)] == [(child.turn_id, 0)]
