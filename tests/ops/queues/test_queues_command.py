"""`turnstile queues`: list, pause and resume."""

import getpass
import json
import socket

import pytest
from inline_snapshot import snapshot

from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_dead, make_failed
from tests.ops.invoke import invoke_plain
from tests.ops.wording import wording
from tests.support.claims import submit_turns
from tests.support.factories import make_worker_record
from tests.support.tampered_turns import make_pending
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.statements.paused_queues import pause_queue, read_paused_queues
from turnstile.statements.worker_registry import announce
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.wire_format import WakeUp


def declared(queue: QueueSettings, **more: str) -> str:
    """The declaration of the test's queue, as the environment has it."""
    return json.dumps([{**queue.model_dump(exclude_none=True), **more}])


# --- list


async def test_a_queue_is_listed_with_its_messages_backlog_dead_letters_and_workers(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings, queue: QueueSettings
) -> None:
    await make_dead(database, queues, settings, ["a", "b"])
    await make_failed(database, settings, ["c"], halt=True)
    (turn,) = await submit_turns(database, settings, "hello", session_id="d")
    await queues.send(queue.name, [OutgoingMessage(WakeUp("t", "d", turn), "")] * 3)
    await queues.receive(queue.name, 1)
    for name, draining in (("w", False), ("v", True)):
        await announce(database, make_worker_record(queue.name, name, draining=draining))
    more = {"TURNSTILE_QUEUES": declared(queue, purpose="answers the turns", owner="team chat")}

    ran = await turnstile("queues", "list", "--json", **more)

    [found] = json.loads(ran.out)["queues"]
    depth = found["sqs"]["depth"]
    assert depth["visible"] + depth["in_flight"] == 3
    assert (depth["in_flight"], depth["delayed"], found["sqs"]["dead_letters"], found["sqs"]["error"]) == (
        1,
        0,
        2,
        None,
    )
    assert (found["backlog"]["due"], found["backlog"]["ready"], found["halted_sessions"]) == (1, 1, 1)
    assert (found["purpose"], found["owner"], found["paused"]) == ("answers the turns", "team chat", None)


async def test_the_list_names_the_tenant_with_the_most_due_turns_and_its_share(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    empty = json.loads((await turnstile("queues", "list", "--json")).out)["queues"][0]["top_tenant"]
    for tenant, sessions in (("calm", "a"), ("flood", "bcd")):
        for session in sessions:
            await make_pending(database, settings, session, tenant_id=tenant)

    ran = await turnstile("queues", "list", "--json")
    shown = await turnstile("queues", "list")

    assert empty is None
    assert json.loads(ran.out)["queues"][0]["top_tenant"] == {"tenant_id": "flood", "due": 3, "percent": 75}
    assert "flood 75%" in shown.out


async def test_the_list_says_who_has_paused_a_queue_and_how_its_workers_are(
    turnstile: Turnstile, database: Database, queue: QueueSettings
) -> None:
    await announce(database, make_worker_record(queue.name))
    await announce(database, make_worker_record(queue.name, "stuck", blocked_for_seconds=12.0))
    before = await turnstile("queues", "list")
    await pause_queue(database, queue.name, paused_by="ada@desk", reason="the provider is down")

    ran = await turnstile("queues", "list", "--json")
    shown = await turnstile("queues", "list")

    [found] = json.loads(ran.out)["queues"]
    assert (found["paused"]["paused_by"], found["paused"]["reason"]) == ("ada@desk", "the provider is down")
    assert wording(shown.out, QUEUE=queue.name) == snapshot("""\
queue               messages  due  ready  running  oldest  top tenant  DLQ  halted  workers  paused                                                        owner  purpose
QUEUE               0/0/0     0    0      0                            0    0       1/2      by ada@desk since TIME: the provider is down
""")  # noqa: E501
    # A pause is not a fault of a worker, a blocked loop is.
    assert "1/2" in before.out


async def test_without_sqs_the_list_says_so_and_has_the_rest(
    turnstile: Turnstile, database: Database, settings: Settings, queue: QueueSettings
) -> None:
    await submit_turns(database, settings, "hello")
    nowhere = {"AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:1"}

    ran = await turnstile("queues", "list", "--json", **nowhere)
    shown = await turnstile("queues", "list", **nowhere)

    [found] = json.loads(ran.out)["queues"]
    assert (ran.code, found["sqs"]["depth"], found["backlog"]["due"]) == (0, None, 1)
    assert found["sqs"]["error"]
    assert (shown.code, "SQS is away" in shown.out) == (0, True)
    assert queue.name in shown.err


async def test_a_queue_that_sqs_does_not_have_is_listed_too(turnstile: Turnstile, queue: QueueSettings) -> None:
    ran = await turnstile("queues", "list", "--json", TURNSTILE_QUEUES=declared(queue, sqs="not-there"))

    [found] = json.loads(ran.out)["queues"]
    assert (ran.code, "turnstile queues create" in found["sqs"]["error"]) == (0, True)


# --- pause and resume


async def test_a_paused_queue_is_resumed_and_both_say_who_and_since(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    name = settings.queue

    paused = await turnstile("queues", "pause", name, "--reason", "maintenance", "--yes", "--json")
    held = await read_paused_queues(database)
    resumed = await turnstile("queues", "resume", name, "--yes", "--json")

    document = json.loads(paused.out)
    me = f"{getpass.getuser()}@{socket.gethostname()}"
    assert (document["paused"], document["changed"], document["reason"]) == (True, True, "maintenance")
    assert (document["paused_by"], held[name].paused_by) == (me, me)
    assert json.loads(resumed.out) == {
        "queue": name, "paused": False, "changed": True, "paused_by": None, "reason": None, "paused_at": None,
    }  # fmt: skip
    assert await read_paused_queues(database) == {}


async def test_pause_and_resume_say_in_a_sentence_what_holds(turnstile: Turnstile, settings: Settings) -> None:
    name = settings.queue

    paused = await turnstile("queues", "pause", name, "--reason", "maintenance", "--yes")
    resumed = await turnstile("queues", "resume", name, "--yes")

    me = f"{getpass.getuser()}@{socket.gethostname()}"
    assert wording(paused.out, QUEUE=name, OPERATOR=me) == snapshot(
        "queue QUEUE is paused by OPERATOR since TIME (maintenance)\n"
    )
    assert wording(resumed.out, QUEUE=name) == snapshot("queue QUEUE is resumed\n")


async def test_a_second_pause_or_resume_changes_nothing_and_asks_nothing(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await pause_queue(database, settings.queue, paused_by="ada", reason="first")

    again = await turnstile("queues", "pause", settings.queue, "--json")
    await turnstile("queues", "resume", settings.queue, "--yes")
    resumed = await turnstile("queues", "resume", settings.queue, "--json")

    document = json.loads(again.out)
    assert (again.code, document["changed"], document["paused_by"], document["reason"]) == (0, False, "ada", "first")
    assert (resumed.code, json.loads(resumed.out)["changed"]) == (0, False)
    assert "nothing was changed" in again.err
    assert "nothing was changed" in resumed.err


async def test_another_reason_of_a_pause_is_asked_for_and_taken(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await pause_queue(database, settings.queue, paused_by="ada", reason=None)
    words = ("queues", "pause", settings.queue, "--reason", "the model is away")

    unasked = await turnstile(*words)
    taken = await turnstile(*words, "--yes", "--json")

    assert unasked.code != 0
    assert "Change the reason" in unasked.err
    document = json.loads(taken.out)
    assert (document["changed"], document["reason"]) == (True, "the model is away")


@pytest.mark.parametrize("what", ["pause", "resume"])
async def test_without_yes_and_without_a_terminal_nothing_is_changed(
    turnstile: Turnstile, database: Database, settings: Settings, what: str
) -> None:
    await submit_turns(database, settings, "hello")
    if what == "resume":
        await pause_queue(database, settings.queue, paused_by="ada", reason=None)

    ran = await turnstile("queues", what, settings.queue)

    assert (
        ran.code,
        "--yes" in ran.err,
        "1 due turn?" in ran.err if what == "pause" else "are due: 1." in ran.err,
    ) == (2, True, True)
    assert len(await read_paused_queues(database)) == (what == "resume")


@pytest.mark.parametrize("what", ["pause", "resume"])
async def test_an_undeclared_queue_is_refused(turnstile: Turnstile, what: str) -> None:
    assert (await turnstile("queues", what, "nowhere", "--yes")).code == 3


def test_the_group_alone_shows_its_help() -> None:
    ran = invoke_plain("queues")

    assert all(name in ran.out + ran.err for name in ("list", "pause", "resume", "create"))
