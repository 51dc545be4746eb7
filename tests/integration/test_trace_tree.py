"""A trace as a tree, read by one recursive statement (G6)."""

from tests.factories import make_submission
from turns.database import Database
from turns.identifiers import TraceContext
from turns.settings import Settings
from turns.submission import Submission, submit
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
