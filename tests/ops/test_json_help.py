"""`--json`: the help of each command names the fields of its document, and no others. After an error there is no document."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, LiteralString

import pytest
from typer.main import get_command

from tests.archive.archiving import age, end_turn
from tests.conftest import sqs_client
from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_dead, make_failed
from tests.ops.invoke import NOBODY, NOWHERE, invoke, invoke_plain
from tests.support.stacks.stack import Stack
from tests.support.stored_keys import id_of, store_key
from tests.support.tampered_turns import make_running, tamper
from tests.support.waiting_turns import RETRIED, make_due_for_an_hour, make_joining, make_settled, make_worker
from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import record_alone
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.dev.stack.stack import LocalStack
from turnstile.message_queue import MessageQueues
from turnstile.ops.command_list import LazyCommand, app

LINES = {
    "list": ["--halting", "--status failed", ""],
    "status": ["{failed} --show-text", "{joining}"],
    "why": ["{waiting}", "{failed}"],
    "sessions": ["--stuck --older-than 1s"],
    "top": [""],
    "workers": [""],
    "stats": ["", "--by tenant"],
    "trace": ["{joining}"],
    "wake": ["{waiting} --yes"],
    "dlq list": ["--messages --show-text", "--groups"],
    "dlq show": ["{failed} --show-text"],
    "dlq drop": ["--dry-run", "--malformed --dry-run"],
    "redrive": ["--dry-run", "--turn {failed} --yes"],
    "redrives": [""],
    "audit": [""],
    "webhook-secret show": ["--tenant t"],
    "webhook-secret rotate": ["--tenant t --yes"],
    "webhook-secret list": [""],
    "webhook-secret revoke": ["--tenant t 1 --yes"],
    "cancel": ["{waiting} --yes", "--tenant t --dry-run"],
    "retry": ["{halting} --dry-run"],
    "skip": ["{halting} --yes"],
    "queues pause": ["{queue} --yes"],
    "queues list": [""],
    "doctor": [""],
    "queues resume": ["{queue} --yes"],
    "queues create": [""],
    "limits set": ["models --rate 5 --yes"],
    "limits list": [""],
    "limits clear": ["models --yes"],
    "key create": ["--tenant acme --role admin --expires 1d"],
    "key list": [""],
    "key rotate": ["{key} --yes"],
    "key revoke": ["{key} --yes"],
    "archive": ["--older-than 90d --yes"],
    "reseal": ["--dry-run"],
    "erase": ["--tenant t --session gone --verify", "--tenant t --session failed --yes"],
    "submit": ["s hello --direct", "s hello --direct --idempotency-key k", "s other --direct --idempotency-key k"],
}
"""The options with which each command is run, in an order in which none spoils the facts of a later one."""

NEEDED = {
    "TURNSTILE_LIMITS": json.dumps([{"name": "models", "key": "metadata.model", "rate": 1}]),
    "TURNSTILE_WEBHOOK_SECRETS": "whsec_" + "QUJD" * 8,
}

SEALING_KEYS = json.dumps({"seal_with": "k", "keys": {"k": "QUJD" * 10 + "QUI="}})

OWES_WEBHOOK: LiteralString = """
INSERT INTO webhooks (turn_id, generation, tenant_id, url, event)
SELECT id, generation, tenant_id, 'https://example.com', '{}' FROM turns WHERE session_id = 'failed'"""

KEYS_ARE_DATA = {
    "by_status",
    "by_error_class",
    "counts",
    "failed",
    "filter",
    "left",
    "letters",
    "metadata",
    "open",
    "releases",
    "undeclared",
    "workers",
}
"""Objects whose keys are statuses, classes, queues: nothing for a help."""


def commands_with_json(command: Any, path: str = "") -> Iterator[str]:
    loaded = command.load() if isinstance(command, LazyCommand) else command
    if any(parameter.name == "as_json" for parameter in loaded.params):
        yield path.strip()
    for name, below in getattr(loaded, "commands", {}).items():
        yield from commands_with_json(below, f"{path} {name}")


def explained(command: str) -> tuple[str, str]:
    """What the help says of the document, alone and with the helps that it refers to."""
    text = invoke_plain(*command.split(), "--help").out.partition("--json")[2]
    own = " ".join(re.split(r"^(?:Arguments|Options):", text, flags=re.MULTILINE)[0].split())
    return own, " ".join([own, *(explained(other)[1] for other in re.findall(r"`turnstile ([a-z ]+) --json`", own))])


def fields(document: Any) -> set[str]:
    if isinstance(document, list):
        return {name for one in document for name in fields(one)}
    if not isinstance(document, dict):
        return set()
    # The facts of a reason are those of its code.
    below = [{"code": None} if "code" in one else one for name, one in document.items() if not is_data(name, one)]
    return {*document, *(name for one in below for name in fields(one))}


def is_data(name: str, value: Any) -> bool:
    return not isinstance(value, dict | list) or (name in KEYS_ARE_DATA and isinstance(value, dict))


def check(command: str, documents: list[Any]) -> list[str]:
    """The fields that the help lacks, and those that it names and the documents lack."""
    (own, whole), found = explained(command), fields(documents)
    unexplained = found - {*re.findall(r"\w+", whole)}
    # Other words of the help may be words of a sentence.
    absent = {*re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", own)} - found
    return [f"{command}: {names}" for names in (sorted(unexplained), sorted(absent)) if names]


@pytest.mark.not_on("aws", "it makes queues")
async def test_the_help_of_each_command_explains_its_document(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings, stack: Stack, tmp_path: Path
) -> None:
    keys_file = tmp_path / "sealing.json"
    keys_file.write_text(SEALING_KEYS)
    needed = {**NEEDED, "TURNSTILE_SEALING_KEYS_FILE": str(keys_file)}
    (failed,) = await make_dead(database, queues, settings, ["failed"])
    await make_failed(database, settings, ["a"])
    (halting,) = await make_failed(database, settings, ["halted"], halt=True)
    waiting = await make_settled(database, settings, "waiting", RETRIED)
    joining, _ = await make_joining(database, settings, "joining")
    await make_running(database, settings, "running")
    await make_worker(database, settings)
    await make_due_for_an_hour(settings)
    await tamper(settings, OWES_WEBHOOK)
    await record_alone(database, AuditEvent(kind=AuditKind.QUEUE_PAUSED, actor="ada@ops", subject="queue turns"))
    address = await queues.find(settings.queue)
    sqs_client(stack).send_message(QueueUrl=address.dlq_url, MessageBody="not ours")
    key = id_of(await store_key(database))
    names = {
        "key": key,
        "failed": failed,
        "halting": halting,
        "waiting": waiting,
        "joining": joining,
        "queue": settings.queue,
    }

    wrong = []
    for command, lines in LINES.items():
        if command == "archive":
            await end_turn(database, settings, "old")
            await age(database)
        ran = [await turnstile(*command.split(), *line.format(**names).split(), "--json", **needed) for line in lines]
        assert all(one.out for one in ran), (command, ran)
        wrong += check(command, [json.loads(one.out) for one in ran])

    assert not wrong, "\n".join(wrong)
    assert {*LINES} == {*commands_with_json(get_command(app))} - {"local status"}


@pytest.mark.not_on("containers", "it is about the embedded stack itself")
def test_the_help_explains_the_document_of_the_local_stack(stack: LocalStack) -> None:
    ran = invoke("local", "status", "--home", str(stack.home), "--json")

    assert check("local status", [json.loads(ran.out)]) == []


async def test_a_command_that_fails_prints_one_line_and_no_document(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    running = await make_running(database, settings)

    ran = [
        await turnstile(*line.split(), "--json")
        for line in (
            f"wake {running} --yes", f"retry {running} --yes", f"skip {running} --yes",
            f"status {NOBODY}", f"why {NOBODY}", f"trace {NOBODY}", f"cancel {NOBODY} --yes", f"redrive --turn {NOBODY} --yes",
        )
    ]  # fmt: skip
    away = await turnstile("list", "--json", DATABASE_URL=NOWHERE)

    assert [one.code for one in (*ran, away)] == [1, 1, 1, 3, 3, 3, 3, 3, 4]
    assert [(one.out, one.err.count("\n")) for one in (*ran, away)] == [("", 1)] * 9
