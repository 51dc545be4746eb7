"""A reason in words: evidence, times, and the commands that would move the turn."""

from dataclasses import replace
from typing import Any

import pytest

from tests.ops.why.seen import FAILED, HEAD, NOW, TURN, ago, running_turn, seen_turn
from turnstile.ops.why.reason import (
    Answer,
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
    as_document,
)
from turnstile.ops.why.wait_facts import MOST_OLDER, OpenChild
from turnstile.ops.why.words import as_lines, describe
from turnstile.turn.status import TurnStatus

WAKE = f"turnstile wake {TURN}"
REDRIVE = f"turnstile redrive --turn {TURN}"
CHILDREN = tuple(OpenChild(id=TURN, session_id=f"c{n}", status=TurnStatus.PENDING) for n in range(7))
RUNS = Running(worker_id="w", since=ago(10), lease_until=ago(-20), seen_at=ago(5))
BLOCK = WorkerBlock(since=ago(34), by=HEAD, host="h", pid=7)
QUARANTINED = Quarantined(crashes=2, alone=True)
LOCKED = Locked(pid=77, user_name="ann", application="psql", since=ago(116), running_in=None)
END = 'psql "$OWNER_URL" -c "SELECT pg_terminate_backend(77)"'
NOT_SENT = NotSent(queue="q", since=ago(90), placed=True, workers=3)
PAUSED = Paused(queue="q", by="ann", since=ago(7200), reason="x\ny")


def lost(**fields: Any) -> Lost:
    given: dict[str, Any] = {
        "worker_id": "w",
        "since": ago(99),
        "lease_until": ago(9),
        "seen_at": None,
        "obstacle": None,
    }
    return Lost(**{**given, "marked": True, **fields})


def answer(reason: Reason, **fields: Any) -> Answer:
    given: dict[str, Any] = {"tenant_id": "t", "session_id": "s", "turn_id": TURN, "turn": seen_turn(), "at": NOW}
    return Answer(reason=reason, **{**given, **fields})


@pytest.mark.parametrize(
    ("reason", "said", "commands"),
    [
        (Ended(status=TurnStatus.SUCCEEDED, since=ago(60)), "SUCCEEDED at 2026-11-21 08:59:00Z (1m ago)", []),
        (Ended(status=TurnStatus.FAILED, since=ago(60), error_class="E", error="e"), "error: E: e", [REDRIVE]),
        (Ended(status=TurnStatus.FAILED, since=ago(60), error_class="expired"), "It has expired: FAILED", [REDRIVE]),
        (Ended(status=TurnStatus.FAILED, since=None, archived=True), "it is in the archive, and can't run again", []),
        (Ended(status=TurnStatus.CANCELED, since=NOW, cancel_reason="user"), "why it was canceled: user", []),
        (AtRest(), "no open turn", []),
        (
            Halted(turn_id=FAILED, error_class="E", error=None, since=ago(300)),
            f"The FAILED turn {FAILED} has halted the session since 2026-11-21 08:55:00Z (5m ago).",
            [f"turnstile retry {FAILED}", f"turnstile skip {FAILED}"],
        ),
        (
            Halted(turn_id=FAILED, error_class="E", error="no such model", since=ago(300)),
            "its error: E: no such model",
            [f"turnstile retry {FAILED}", f"turnstile skip {FAILED}"],
        ),
        (replace(RUNS, hand_backs=3), "hand-backs: 3; 20 in a row make it FAILED", [f"turnstile cancel {TURN}"]),
        (replace(RUNS, crashes=2), "2 workers died while running it; a few more, and", [f"turnstile cancel {TURN}"]),
        (
            replace(RUNS, crashes=1, crashes_left=2),
            "1 worker died while running it; 2 more, and it is FAILED as crash_loop",
            [f"turnstile cancel {TURN}"],
        ),
        (replace(RUNS, block=BLOCK), f"whose event loop turn {HEAD} blocks since 2026-11-21 08:59:26Z (34s ago).", []),
        (replace(RUNS, block=BLOCK), "stop the worker, process 7 on h: its turns begin again in others", []),
        (replace(RUNS, block=replace(BLOCK, by=TURN)), "whose event loop this turn blocks since", []),
        (replace(RUNS, block=replace(BLOCK, by=None)), "whose event loop an unknown handler blocks since", []),
        (RUNS, "in worker w since 2026-11-21 08:59:50Z (10s ago)", [f"turnstile cancel {TURN}"]),
        (RUNS, "its lease is valid until 2026-11-21 09:00:20Z (in 20s)", [f"turnstile cancel {TURN}"]),
        (replace(RUNS, cancel_requested_at=ago(1), seen_at=None), "no heartbeat of its worker is on record", []),
        (Scheduled(until=ago(-86_400)), "waits until 2026-11-22 09:00:00Z (in 1d)", [WAKE]),
        (Retry(until=ago(-9), attempt=2, error_class="E", error="a\nb"), "attempt 2 failed: E: a", [WAKE]),
        (Snoozed(until=ago(-9), reason="busy"), "its reason: busy", [WAKE]),
        (Snoozed(until=ago(-9), reason=None), "it gave no reason", [WAKE]),
        (Joining(children=8, open_children=CHILDREN, until=ago(-9)), "and 2 more", [f"turnstile why {TURN}"]),
        (Joining(children=1, open_children=(), until=ago(-9)), "they have ended", ["turnstile relay"]),
        (PAUSED, "ann has paused its queue q since 2026-11-21 07:00:00Z (2h ago).", ["turnstile queues resume q"]),
        (NoWorker(queue="q", draining=2, last_seen_at=None), "no heartbeat within a day", ["turnstile worker --queue q"]),
        (lost(), "a relay has marked it as lost", ["turnstile doctor --fix"]),
        (lost(marked=False), "no relay has marked it as lost yet", ["turnstile relay"]),
        (lost(obstacle=PAUSED), "no worker can take it over. ann has paused its queue q", ["turnstile queues resume q"]),
        (lost(obstacle=QUARANTINED), "no worker can take it over. It waits its turn, to run alone", []),
        (replace(QUARANTINED, alone=False), "It waits for the end of turns that run alone", []),
        (LOCKED, "Another transaction keeps its row locked, or its session's: no worker can begin it.", [END]),
        (LOCKED, "process 77 of Postgres: user ann, application psql, open since 2026-11-21 08:58:04Z (1m56s ago)", [END]),
        (replace(LOCKED, running_in="w", since=None), "worker w can't end it.", [END]),
        (
            LockWithoutRow(key="k", worker_id="w", seconds_left=12.3, worker_is_alive=False),
            "the lock k expires in 12s",
            [],
        ),
        (NOT_SENT, "no relay has sent its wake-up since", ["turnstile relay", WAKE]),
        (NOT_SENT, "workers of its queue q that are alive: 3", ["turnstile relay", WAKE]),
        (replace(NOT_SENT, placed=False), "given it its place in the session since", ["turnstile relay"]),
        (
            TenantFull(tenant_id="t", running=6, workers=2, share="fair"),
            "turns of this tenant that run: 6, in 2 workers",
            ["turnstile list --status running --tenant t"],
        ),
        (
            TenantFull(tenant_id="t", running=6, workers=2, share="fair"),
            "for a minute after another tenant's turn, a worker keeps slots free",
            ["turnstile list --status running --tenant t"],
        ),
        (
            SlotsBusy(queue="q", workers=2, slots=8, older=MOST_OLDER),
            f"have been due for longer: {MOST_OLDER} or more",
            ["turnstile worker --queue q", "turnstile list --status running --queue q"],
        ),
        (SentInVain(queue="q", since=ago(9), sends=1, next_at=NOW, older=0), "1 wake-up brought no worker.", [WAKE]),
        (OnItsWay(since=ago(9), next_at=ago(-60), older=4), "have been due for longer: 4", [WAKE]),
        (OnItsWay(since=ago(9), next_at=ago(-60), older=0), "was sent, unless SQS refused it: a relay sends it again at", [WAKE]),
        (OnItsWay(since=ago(9), next_at=ago(4), older=0), "its wake-up has been owed since 2026-11-21 08:59:56Z", [WAKE]),
        (
            Behind(head=running_turn(id=HEAD, seq=1), reason=RUNS),
            f"an earlier turn of its session: {HEAD}, seq 1, RUNNING",
            [f"turnstile cancel {HEAD}"],
        ),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, str | list) else "",
)  # fmt: skip
def test_a_reason_says_its_evidence_and_the_commands(reason: Reason, said: str, commands: list[str]) -> None:
    asked = answer(reason)

    assert said in "\n".join(as_lines(asked))
    assert list(describe(asked).commands) == commands


def test_a_turn_that_has_not_begun_says_how_long_it_has_waited() -> None:
    waiting, begun = [as_lines(answer(AtRest(), turn=seen_turn(first_started_at=at)))[0] for at in (None, ago(1))]

    assert waiting.endswith(f"turn {TURN}, session s of tenant t, seq 2, queue turns: PENDING, has waited for 30s")
    assert begun.endswith("PENDING")


def test_a_document_names_each_reason_and_what_is_inside_it() -> None:
    behind = Behind(head=running_turn(id=HEAD, seq=1), reason=lost(obstacle=PAUSED))

    reason = as_document(answer(behind))["reason"]

    assert (reason["code"], reason["head"]["id"]) == ("behind", HEAD)
    assert (reason["reason"]["code"], reason["reason"]["obstacle"]["code"]) == ("lost", "paused")
