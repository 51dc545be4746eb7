"""`turnstile audit`: the list, its filters, its pages."""

import json

import pytest
from inline_snapshot import snapshot

from tests.ops.conftest import Turnstile
from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import record_alone
from turnstile.backends.postgres.database import Database

EVENTS = [
    AuditEvent(kind=AuditKind.QUEUE_PAUSED, actor="ada@ops", subject="queue turns", reason="the model\nis away"),
    AuditEvent(
        kind=AuditKind.TEXT_READ,
        actor="bob@ops",
        subject="turn 7",
        tenant_id="acme",
        counts={"messages": 2, "turns": 1},
    ),
    AuditEvent(kind=AuditKind.QUEUE_RESUMED, actor="ada@ops", subject="queue turns"),
]


@pytest.fixture(autouse=True)
async def recorded(database: Database) -> None:
    for event in EVENTS:
        await record_alone(database, event)


async def listed(turnstile: Turnstile, *options: str) -> list[str]:
    """The kinds of the listed events."""
    ran = await turnstile("audit", *options, "--json")
    assert ran.code == 0, ran.err
    return [event["kind"] for event in json.loads(ran.out)["events"]]


async def test_events_are_listed_newest_first_a_line_for_each(turnstile: Turnstile, database: Database) -> None:
    await database.fetch("UPDATE audit SET created_at = '2026-01-02 03:04:05+00'", {})

    ran = await turnstile("audit")

    assert ran.out == snapshot("""\
id  at                    kind           by       tenant  subject      how many             reason
3   2026-01-02 03:04:05Z  queue.resumed  ada@ops          queue turns
2   2026-01-02 03:04:05Z  text.read      bob@ops  acme    turn 7       turns 1, messages 2
1   2026-01-02 03:04:05Z  queue.paused   ada@ops          queue turns                       the model
""")


async def test_the_document_has_the_whole_event(turnstile: Turnstile) -> None:
    [_, read, paused] = json.loads((await turnstile("audit", "--json")).out)["events"]

    assert (read["actor"], read["tenant_id"], read["subject"]) == ("bob@ops", "acme", "turn 7")
    assert (read["counts"], read["reason"]) == ({"messages": 2, "turns": 1}, None)
    assert paused["reason"] == "the model\nis away"


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ((), ["queue.resumed", "text.read", "queue.paused"]),
        (("--kind", "text.read"), ["text.read"]),
        (("--tenant", "acme"), ["text.read"]),
        (("--actor", "ada@ops"), ["queue.resumed", "queue.paused"]),
        (("--actor", "ada@ops", "--kind", "queue.paused"), ["queue.paused"]),
        (("--tenant", "other"), []),
    ],
)
async def test_a_filter_keeps_what_matches(turnstile: Turnstile, options: tuple[str, ...], kinds: list[str]) -> None:
    assert await listed(turnstile, *options) == kinds


async def test_since_leaves_out_what_is_older(turnstile: Turnstile, database: Database) -> None:
    await database.fetch("UPDATE audit SET created_at = created_at - interval '2 h' WHERE kind = 'queue.paused'", {})

    assert await listed(turnstile, "--since", "1h") == ["queue.resumed", "text.read"]
    assert await listed(turnstile, "--since", "3h") == ["queue.resumed", "text.read", "queue.paused"]


async def test_the_pages_together_are_the_whole_list(turnstile: Turnstile) -> None:
    first = await turnstile("audit", "--limit", "2", "--json")
    last_id = json.loads(first.out)["events"][-1]["id"]

    assert await listed(turnstile, "--limit", "2", "--before", str(last_id)) == ["queue.paused"]


async def test_a_full_page_says_how_to_get_the_next(turnstile: Turnstile) -> None:
    full = await turnstile("audit", "--limit", "3")
    whole = await turnstile("audit", "--limit", "4")

    assert full.err == snapshot("the newest 3; there may be more: --before 1\n")
    assert whole.err == ""


async def test_an_unknown_kind_is_refused_with_all_kinds(turnstile: Turnstile) -> None:
    ran = await turnstile("audit", "--kind", "key.stolen")

    assert (ran.code, ran.out) == (2, "")
    assert "key.refused" in ran.err
