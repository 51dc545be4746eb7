"""What the commands about dead letters say to people: short sentences, and how many turns they leave out."""

from uuid import uuid4

import pytest
from inline_snapshot import snapshot

from tests.conftest import sqs_client
from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_dead, make_failed, rows
from tests.ops.wording import wording
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.dlq_command import _as_queued
from turnstile.ops.dead_letters.dlq_messages import Letter, LetterKind
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.wire_format import WakeUp


async def test_a_redrive_says_in_sentences_what_it_would_do_and_what_it_has_done(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_dead(database, queues, settings, ["a", "b"])
    await make_dead(database, queues, settings, ["c"], error_class="KeyError")

    dry = await turnstile("redrive", "--dry-run")
    ran = await turnstile("redrive", "--error", "ValueError", "--yes")
    nothing = await turnstile("redrive", "--error", "ValueError", "--yes")

    assert wording(dry.out) == snapshot(
        "would put back 3 FAILED turns (no filter; these are all), failed from TIME to TIME: ValueError 2, KeyError 1\n"
    )
    assert ran.out == snapshot("""\
redrive 1: 2 of 2 turns put back to work; so far 2 not ended yet
2 obsolete dead letters deleted
1 dead letter left on the dead-letter queues: their turns are still FAILED
""")
    assert nothing.out == ""
    assert (dry.err, ran.err) == ("", "")


async def test_messages_that_no_turn_explains_are_counted(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings, stack: Stack
) -> None:
    await make_dead(database, queues, settings, ["a"])
    url = (await queues.find(settings.queue)).dlq_url
    for body in ("not ours", WakeUp("t", "s", uuid4()).encode(), WakeUp("t", "s", uuid4()).encode()):
        sqs_client(stack).send_message(QueueUrl=url, MessageBody=body)

    ran = await turnstile("redrive", "--yes")

    assert ran.err == snapshot("""\
1 message that can't be read left on the dead-letter queue: see turnstile dlq list --messages
2 messages of unknown turns left on the dead-letter queue: see turnstile dlq list --messages
""")


async def test_the_reason_of_a_stop_is_said_once(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.dead_letters.redriven_turns.CANARY_WAIT_SECONDS", 0.05)
    await make_failed(database, settings, ["a", "b"])

    ran = await turnstile("redrive", "--canary", "1", "--yes")

    assert ran.out == "redrive 1: 1 of 2 turns put back to work\n"
    assert ran.err.count("the canary did not end in time") == 1


async def test_a_canary_of_all_turns_is_said_to_be_no_canary(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a", "b"])

    ran = await turnstile("redrive", "--canary", "2", "--dry-run")

    assert ran.err == snapshot(
        "the canary is all 2 turns: nothing waits for its end. Look later with turnstile dlq list\n"
    )


async def test_a_drop_says_in_a_sentence_what_it_would_do_and_what_it_has_done(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    (failed, _) = await make_dead(database, queues, settings, ["a", "b"])

    dry = await turnstile("dlq", "drop", "--session", "a", "--dry-run")
    ran = await turnstile("dlq", "drop", "--session", "a", "--yes")
    again = await turnstile("dlq", "drop", "--turn", str(failed), "--yes")
    malformed = await turnstile("dlq", "drop", "--malformed", "--yes")

    assert wording(dry.out) == snapshot(
        "would give up 1 FAILED turn (session a), failed from TIME to TIME: ValueError 1\n"
    )
    assert ran.out == snapshot("1 of 1 turn given up; 1 dead letter deleted\n")
    assert again.out == snapshot("0 of 1 turn given up, 1 no longer FAILED or given up before\n")
    assert (malformed.out, malformed.err) == ("", snapshot("no malformed message is on the dead-letter queues\n"))


async def test_groups_show_the_last_turn_of_each_with_its_message(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a"])
    [last] = await make_failed(database, settings, ["b"], release="r8")
    await database.fetch("UPDATE turns SET error = %(error)s", {"error": f"{'long ' * 20}\nsecond line"})

    out = (await turnstile("dlq", "list", "--groups")).out

    assert wording(out, QUEUE=settings.queue, TURN=last) == snapshot("""\
queue               error       turns  tenants  first                 last                  releases
QUEUE               ValueError  2      1        TIME                  TIME                  r8 1

The last turn of each:
queue               error       the last turn                         its message
QUEUE               ValueError  TURN                                  long long long long long long long long long long long long…
""")


async def test_without_sqs_the_list_is_complete_and_says_that_the_messages_are_not(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    failed, _ = await make_failed(database, settings, ["a", "b"])

    ran = await turnstile(
        "dlq", "list", "--messages", "--limit", "1", AWS_ENDPOINT_URL_SQS="http://127.0.0.1:1", COLUMNS="250"
    )

    assert (ran.code, str(failed) in ran.out) == (0, True)
    assert f"the messages of {settings.queue} are not shown: " in ran.err
    assert f"messages on the dead-letter queue of {settings.queue}: unknown, SQS is away" in ran.err
    assert "the oldest 1; there may be more (--limit)" in ran.err


@pytest.mark.parametrize("moved", [True, False])
def test_a_letter_that_sqs_has_moved_is_shown_so_although_its_turn_is_failed(*, moved: bool) -> None:
    wake_up = WakeUp("t", "s", uuid4())
    message = ReceivedMessage("m", wake_up.encode(), "handle", receive_count=1, attributes={}, moved_by_sqs=moved)

    shown = _as_queued("turns", Letter(message, wake_up, LetterKind.STILL_DEAD), show_text=True)

    assert shown.kind is (LetterKind.MOVED_BY_SQS if moved else LetterKind.STILL_DEAD)
    assert (shown.turn_id, shown.body) == (wake_up.turn_id, None)


# --- turns that halt their session

LEFT_OUT = "2 FAILED turns halt their sessions and are left out: turnstile list --halting"


@pytest.mark.parametrize(
    "command",
    [
        ("dlq", "list"), ("dlq", "list", "--json"), ("dlq", "list", "--groups"), ("redrive", "--dry-run"),
        ("redrive", "--yes", "--json"), ("dlq", "drop", "--dry-run"), ("dlq", "export", "-"),
    ],
)  # fmt: skip
async def test_one_line_says_how_many_turns_halt_their_session_and_names_the_commands(
    turnstile: Turnstile, database: Database, settings: Settings, command: tuple[str, ...]
) -> None:
    await make_failed(database, settings, ["dead"])
    await make_failed(database, settings, ["a", "b"], halt=True)

    ran = await turnstile(*command)

    lines = [line for line in ran.err.splitlines() if "halt" in line]
    assert lines == [f"{LEFT_OUT}, then turnstile retry or skip"]
    assert "left out" not in ran.out


async def test_the_line_repeats_the_filter_and_is_left_out_where_it_does_not_apply(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    halting, other = await make_failed(database, settings, ["a", "b"], halt=True)

    narrowed = await turnstile("dlq", "list", "--queue", settings.queue, "--tenant", "t", "--session", "a")
    without = [
        await turnstile(*words.split())
        for words in (
            "dlq list --session c", "dlq list --dropped", "dlq list --error Boom", f"redrive --turn {other} --dry-run",
        )
    ]  # fmt: skip

    options = f"--queue {settings.queue} --tenant t --session a"
    assert f"1 FAILED turn halts its session and is left out: turnstile list --halting {options}," in narrowed.err
    assert ["left out" in ran.err for ran in without] == [False] * 4
    assert str(halting) in (await turnstile("list", "--halting", *options.split())).out


async def test_retry_and_skip_say_in_a_sentence_how_the_session_goes_on(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    retried, skipped = await make_failed(database, settings, ["a", "b"], halt=True)

    dry = await turnstile("retry", str(retried), "--dry-run", "--wait", "60")
    ran = [await turnstile(*words, "--yes") for words in (("retry", str(retried)), ("skip", str(skipped)))]

    assert (dry.code, dry.err) == (0, "")
    assert wording(dry.out, TURN=retried) == snapshot(
        "TURN has halted session a of tenant t since TIME (ValueError). Turns that wait behind it: 0. This would run it again.\n"
    )
    assert [wording(one.out, TURN=retried, OTHER=skipped) for one in ran] == snapshot(
        [
            "TURN is PENDING again, in its old place: session a goes on with it\n",
            "OTHER is passed over and stays FAILED: session b is no longer halted\n",
        ]
    )
    assert {row["status"] for row in (await rows(database)).values()} == {"PENDING", "FAILED"}
