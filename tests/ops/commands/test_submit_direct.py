"""Batch jobs: a submission that Postgres refuses fails alone."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast

import psycopg

from tests.support.factories import make_submission
from turnstile.ops.commands.submit_direct import submit_all
from turnstile.statements.submit import Accepted, Submission
from turnstile.submit.submitting import Submitting
from turnstile.turn.identifiers import start_trace

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Colliding:
    """Records everything but session `bad`, whose row a constraint refuses."""

    async def commit(self, batch: Sequence[Submission]) -> list[Accepted]:
        if any(one.session_id == "bad" for one in batch):
            raise psycopg.errors.UniqueViolation("content of a client")
        return [
            Accepted(
                turn_id=one.turn_id,
                session_id=one.session_id,
                queue=one.queue,
                execute_at=None,
                expires_at=NOW,
                created_at=NOW,
                trace=start_trace(1),
                replayed=False,
                wake=False,
            )
            for one in batch
        ]

    async def wake_all(self, *_: object) -> int:
        return 0


async def test_a_submission_that_a_constraint_refuses_is_listed_and_the_others_are_submitted() -> None:
    batch = [make_submission("turns", session) for session in ("a", "bad", "b")]

    result = await submit_all(cast("Submitting", Colliding()), batch)

    assert result.turn_ids == [batch[0].turn_id, batch[2].turn_id]
    assert [refused["session_id"] for refused in result.refused] == ["bad"]
    assert "content of a client" not in str(result.refused)
