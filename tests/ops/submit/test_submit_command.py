"""`turnstile submit`: over HTTP, and with `--direct` one turn or a file of them."""

import codecs
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import psycopg
import pytest

from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import rows
from tests.ops.invoke import NOWHERE, invoke_plain
from tests.producer.api.sse_client import serving
from tests.support.factories import make_submission
from tests.support.otlp_receiver import receiving
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, RowLockedError
from turnstile.message_queue import MessageQueues
from turnstile.ops.submit.submit_direct import read_lines, submit_all, what_is_left
from turnstile.ops.terminal.exit_codes import CommandError
from turnstile.relay.loop import Relay
from turnstile.sealing.contents import PLAIN
from turnstile.turn.identifiers import ID_RULE, TraceContext

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = Settings(queues=(QueueSettings(name="turns"), QueueSettings(name="nights")))
WEBHOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def line(**fields: object) -> bytes:
    return json.dumps({"session_id": "alice", "input": "hello", **fields}).encode()


def answer_to(request: str) -> dict[str, str]:
    """What the function of the schema says of a request that is no repeat."""
    said = json.loads(request)
    known = {name: said[name] for name in ("id", "session_id", "queue", "trace_id", "span_id", "parent_span_id")}
    times = {"execute_at": None, "expires_at": NOW.isoformat(), "created_at": NOW.isoformat()}
    return {"answer": json.dumps({"answer": known | times})}


async def test_over_http_a_wait_that_is_too_short_ends_with_1_and_says_how_the_turn_stands(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    hosts = {"webhook_hosts": ("hooks.example.com",), "webhook_secrets": (WEBHOOK_SECRET,)}
    words = ("submit", "alice", "hello", "--webhook", "https://hooks.example.com/done")

    async with serving(settings.model_copy(update=hosts)) as served:
        waited = await turnstile(*words, "--wait", "0.2", TURNSTILE_API_URL=f"http://127.0.0.1:{served.port}")
    async with serving(settings) as served:
        refused = await turnstile(*words, TURNSTILE_API_URL=f"http://127.0.0.1:{served.port}")

    [row] = (await rows(database)).values()
    assert waited.code == 1
    assert f"turn {row['id']} is still PENDING" in waited.err
    assert row["webhook_url"] == "https://hooks.example.com/done"
    assert (refused.code, "webhooks are not enabled here" in refused.err) == (2, True)


async def test_a_direct_submit_may_name_only_the_webhook_hosts_of_the_deployment(
    turnstile: Turnstile, database: Database
) -> None:
    allowed = {"TURNSTILE_WEBHOOK_HOSTS": "hooks.example.com", "TURNSTILE_WEBHOOK_SECRETS": WEBHOOK_SECRET}
    url = "https://hooks.example.com/line"

    file = await turnstile("submit", "--direct", "--file", "-", text=line(webhook_url=url).decode(), **allowed)
    elsewhere = await turnstile("submit", "a", "x", "--direct", "--webhook", "https://else.example.com/", **allowed)
    nowhere = await turnstile("submit", "--direct", "--file", "-", text=line(webhook_url=url).decode())

    assert [row["webhook_url"] for row in (await rows(database)).values()] == [url]
    assert [one.code for one in (file, elsewhere, nowhere)] == [0, 2, 2]
    assert "line 1: webhook_url: webhooks are not enabled here" in nowhere.err


@pytest.mark.parametrize("how", [(), ("--direct",)])
async def test_a_session_that_urls_would_lose_is_refused_with_the_rule(
    turnstile: Turnstile, how: tuple[str, ...]
) -> None:
    ran = await turnstile("submit", "..", "hello", *how)

    assert (ran.code, ran.out) == (2, "")
    assert f"the session must be {ID_RULE}" in ran.err


async def test_a_direct_submit_is_the_same_turn_when_it_is_repeated(turnstile: Turnstile, database: Database) -> None:
    arguments = ("submit", "alice", "-", "--direct", "--idempotency-key", "k")

    first, again = await turnstile(*arguments, text="hello"), await turnstile(*arguments, text="hello")
    other = await turnstile(*arguments, text="bye")

    assert first.out == again.out
    assert list(map(str, await rows(database))) == [first.out.strip()]
    assert (other.code, "refused, session alice" in other.err) == (1, True)


async def test_a_direct_submit_needs_no_sqs(turnstile: Turnstile, database: Database) -> None:
    ran = await turnstile("submit", "alice", "hello", "--direct", AWS_ENDPOINT_URL_SQS="http://127.0.0.1:1")

    assert (ran.code, ran.err) == (0, "1 turn submitted; submitted before: 0\n")
    assert [ran.out.strip()] == list(map(str, await rows(database)))


async def test_a_direct_submit_without_postgres_says_in_one_line_that_nothing_was_submitted(
    turnstile: Turnstile,
) -> None:
    ran = await turnstile("submit", "alice", "hello", "--direct", DATABASE_URL=NOWHERE)

    assert (ran.code, len(ran.err.splitlines())) == (4, 1)
    assert "the database does not answer: " in ran.err
    assert ran.err.endswith("; nothing was submitted: run it again later\n")


class GoingAway:
    """A database that goes away after the first batch, or in which a row is locked then."""

    contents = PLAIN

    def __init__(self, error: str) -> None:
        self._error = RowLockedError(error) if error == "locked" else DatabaseUnavailableError(error)
        self._batches = 0

    async def fetch_pipelined(self, calls: Sequence[tuple[str, Mapping[str, str]]]) -> list[list[dict[str, str]]]:
        self._batches += 1
        if self._batches > 1:
            raise self._error
        return [[answer_to(parameters["request"])] for _, parameters in calls]


REPEATABLE = "With --idempotency-key, a command can be repeated as it is"


@pytest.mark.parametrize(
    ("key", "error", "left"),
    [
        ("k", "gone", "not submitted: 50 turns; perhaps submitted: 100. The same command again submits each turn once"),
        (
            None,
            "gone",
            "not submitted: 50 turns; perhaps submitted: 100: look with turnstile list --tenant t --limit 100. "
            + REPEATABLE,
        ),
        (None, "locked", "not submitted: 150 turns. " + REPEATABLE),
    ],
)
async def test_a_submit_that_is_broken_off_says_what_is_left_and_what_to_do(
    key: str | None, error: str, left: str
) -> None:
    many = [make_submission("turns", "a", key=key and f"{key}:{number}") for number in range(250)]

    result = await submit_all(cast("Database", GoingAway(error)), many)

    assert result.turn_ids == [one.turn_id for one in many[:100]]
    assert str(result.broken_off) == error
    assert what_is_left(result, many) == left


async def test_a_direct_submit_exports_the_spans_of_its_turns_before_it_ends(
    turnstile: Turnstile, database: Database
) -> None:
    with receiving() as receiver:
        sampled = await turnstile("submit", "alice", "hello", "--direct", **receiver.environment)
        dropped = await turnstile(
            "submit", "bob", "hello", "--direct", **receiver.environment, OTEL_TRACES_SAMPLER="always_off"
        )

    turns = {str(turn_id): row for turn_id, row in (await rows(database)).items()}
    turn = turns[sampled.out.split()[-1]]
    [span] = receiver.spans
    assert (span.name.split()[0], span.service, span.span_id) == ("submit", "turnstile-submit", turn["span_id"])
    not_sampled = turns[dropped.out.split()[-1]]
    assert not TraceContext(not_sampled["trace_id"], not_sampled["span_id"]).sampled


async def test_a_file_of_turns_is_submitted_in_order_and_may_be_given_again(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    lines = "\n".join(json.dumps({"session_id": f"s{n % 3}", "input": f"line {n}"}) for n in range(150))

    arguments = ("submit", "--direct", "--tenant", "t", "--file", "-", "--idempotency-key", "job-7", "--json")
    first = await turnstile(*arguments, text=lines)
    again = await turnstile(*arguments, text=lines)

    document = json.loads(first.out)
    assert (document["submitted"], document["replayed"], document["refused"]) == (150, 0, [])
    assert json.loads(again.out)["replayed"] == 150
    assert json.loads(again.out)["turn_ids"] == document["turn_ids"]
    await Relay(database, queues, settings).round()
    seqs = {str(turn_id): row["seq"] for turn_id, row in (await rows(database)).items()}
    assert [seqs[turn_id] for turn_id in document["turn_ids"]] == [n // 3 + 1 for n in range(150)]
    assert await queues.count(settings.queue) == 150


TWICE = b'{"session_id": "alice", "session_id": "bob", "input": "x"}'


def test_a_bad_line_of_a_file_is_named_before_anything_is_submitted(tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    for bad in (line(inptu="x"), line(queue="nope"), line(on_busy="reject"), b"not JSON", b"[1]", TWICE):
        file.write_bytes(b"\n".join([line(), b"", bad]))

        ran = invoke_plain("submit", "--direct", "--file", str(file), DATABASE_URL=NOWHERE)

        assert ran.code == (3 if b"nope" in bad else 2)
        assert "line 3" in ran.err
        assert "nothing was submitted" in ran.err


def test_a_line_that_is_not_json_has_one_number_that_of_the_file() -> None:
    with pytest.raises(CommandError) as refused:
        read_lines([line(), b"not JSON\n"], SETTINGS, "default", None)

    assert str(refused.value) == "line 2: expected ident at column 2; nothing was submitted"


def test_a_byte_order_mark_at_the_start_of_a_file_is_skipped() -> None:
    [read] = read_lines([codecs.BOM_UTF8 + line()], SETTINGS, "default", None)

    assert read.session_id == "alice"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_in_utf_16_is_named(encoding: str) -> None:
    text = f"\ufeff{line().decode()}\n".encode(encoding)

    with pytest.raises(CommandError, match="line 1: the file is in UTF-16: write it in UTF-8; nothing was submitted"):
        read_lines(text.splitlines(keepends=True), SETTINGS, "default", None)


def test_a_named_queue_is_that_of_every_line_without_one_and_gives_the_same_turn() -> None:
    lines = [line(), line(queue=None), line(queue="turns"), line(queue="nights")]

    read = read_lines(lines, SETTINGS, "default", None, queue="nights")

    assert [submission.queue for submission in read] == ["nights", "nights", "turns", "nights"]
    assert read[0].fingerprint == read[3].fingerprint


class Colliding:
    """Records everything but session `bad`, whose row a constraint refuses."""

    contents = PLAIN

    async def fetch_pipelined(self, calls: Sequence[tuple[str, Mapping[str, str]]]) -> list[list[dict[str, str]]]:
        if any('"bad"' in parameters["request"] for _, parameters in calls):
            raise psycopg.errors.UniqueViolation("content of a client")
        return [[answer_to(parameters["request"])] for _, parameters in calls]


async def test_a_submission_that_a_constraint_refuses_is_listed_and_the_others_are_submitted() -> None:
    batch = [make_submission("turns", session) for session in ("a", "bad", "b")]

    result = await submit_all(cast("Database", Colliding()), batch)

    assert result.turn_ids == [batch[0].turn_id, batch[2].turn_id]
    assert [refused["session_id"] for refused in result.refused] == ["bad"]
    assert "content of a client" not in str(result.refused)
