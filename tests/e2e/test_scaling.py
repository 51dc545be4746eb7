"""A fleet that follows its backlog up and down, with protection, through real processes: it costs no turn (G31)."""

from pathlib import Path

import pytest

from tests.proof.chaos.scaling import Wave, scale, usual_options
from tests.proof.chaos.target_tracking import Policy
from tests.proof.checker.__main__ import main as judge
from tests.support.stacks.stack import Stack


@pytest.mark.not_on("aws", "it makes queues")
@pytest.mark.not_on("containers", "a chaos run's account has no password, which only the embedded Postgres lets in")
async def test_workers_come_and_go_with_the_backlog_and_nothing_is_lost_or_doubled(
    stack: Stack, tmp_path: Path
) -> None:
    policy = Policy(per_task=4, minimum=1, maximum=3, in_after=5)
    wave = Wave(flood_turns_per_second=6.0, flood_seconds=6.0, ebb_seconds=1.0)

    outcome = await scale(1, wave, policy, usual_options(1), tmp_path, stack)

    assert outcome.rested
    assert outcome.most > policy.minimum
    assert outcome.last == policy.minimum
    assert judge([str(tmp_path)]) == 0
