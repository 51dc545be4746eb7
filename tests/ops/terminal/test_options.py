"""Options and arguments: a wrong command line ends with 2, and every command explains itself."""

from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from tests.ops.invoke import NOBODY, NOWHERE, invoke_plain
from turnstile.ops.archive_command import parse_rest
from turnstile.ops.command_list import COMMANDS, LazyCommand, app
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.terminal.options import DAY_SECONDS, parse_age, parse_rate


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "trace no-uuid",
        "cancel",
        f"cancel {NOBODY} --session a",
        f"cancel {NOBODY} --dry-run",
        "cancel --status ended",
        "cancel --older-than 90",
        "redrive --trace abc",
        "redrive --turn nonsense",
        "redrive --canary -1",
        "dlq export",
        "dlq export - --malformed --tenant acme",
        "dlq drop --malformed --error timeout",
        "submit",
        "submit alice",
        "submit compensation:alice hello",
        "submit 4915112345678 hello --direct",
        "submit alice hello --direct --wait 1",
        "submit alice hello --tenant acme",
        "submit --file -",
        "submit alice hello --direct --file -",
        "submit --direct --file - --execute-at 2030-01-01T00:00:00Z",
        "submit --direct --file nowhere.jsonl",
        "redrive --rate fast",
        "migrate --down",
        "archive --older-than 90",
        "archive --older-than 90m",
        "stats --since 1",
        "queues pause",
        "completion tcsh",
    ],
)
def test_a_wrong_command_line_ends_with_2_and_says_so_on_standard_error(line: str) -> None:
    ran = invoke_plain(*line.split(), DATABASE_URL=NOWHERE)

    assert (ran.code, ran.out, len(ran.err.splitlines())) == (ExitCode.USAGE, "", 1), ran.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("wake nonsense", "TURN: 'nonsense' is not a turn id (see turnstile wake --help)"),
        ("status 12", "TURN: '12' is not a turn id (see turnstile status --help)"),
        ("dlq show 12", "TURN: '12' is not a turn id (see turnstile dlq show --help)"),
        ("cancel 12", "TURN: '12' is not a turn id (see turnstile cancel --help)"),
        ("redrive --turn 12", "'12' is not a turn id; nothing was done"),
        ("why a/b", "'a/b' is neither a turn's id nor a session's (see turnstile why --help)"),
        ("trace 12", "'12' is neither a turn's id nor a trace id (see turnstile trace --help)"),
        ("top --every soon", "--every: 'soon' is not a number (see turnstile top --help)"),
        ("top --every 0", "--every: must be at least 0.5, not 0 (see turnstile top --help)"),
        ("list --limit 1.5", "--limit: '1.5' is not a whole number (see turnstile list --help)"),
        ("workers --limit 9999999", "--limit: must be at most 1000000, not 9999999 (see turnstile workers --help)"),
        ("stats --since 1", "--since: '1' is not an age; try 90s, 15m, 36h, 7d or 12w (see turnstile stats --help)"),
        ("cancel --status x", "--status: 'x' is not one of 'pending', 'running', 'open' (see turnstile cancel --help)"),
        ("list --statu", "no such option: --statu (Possible options: --status, --tenant) (see turnstile list --help)"),
        ("redrive --limit", "option '--limit' requires an argument"),
        ("wake", "missing argument 'TURN' (see turnstile wake --help)"),
        ("dlq lst", "no such command 'lst'. Did you mean 'list'? (see turnstile dlq --help)"),
        ("--nonsense", "no such option: --nonsense (see turnstile --help)"),
        ("nons\x1b[2J", "no such command 'nons\\x1b[2J' (see turnstile --help)"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_command_line_is_said_in_one_plain_line(line: str, said: str) -> None:
    ran = invoke_plain(*line.split(), DATABASE_URL=NOWHERE)

    assert (ran.code, ran.out, ran.err) == (ExitCode.USAGE, "", f"turnstile: {said}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_its_line_in_the_list_of_all_commands_agrees(name: str) -> None:
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    lazy = root.commands[name]
    assert isinstance(lazy, LazyCommand)
    assert lazy.help

    ran = invoke_plain(name, "--help")

    assert (ran.code, "Usage: " in ran.out) == (ExitCode.OK, True)
    first_words = " ".join(lazy.help.rstrip(".").split()[:2])
    assert first_words in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("text", "rate"), [("5", 5.0), ("5/s", 5.0), ("0.5", 0.5), ("0", None), ("inf", None), ("nan", None)]
)
def test_a_rate_may_name_its_unit(text: str, rate: float | None) -> None:
    assert parsed_or_none(parse_rate, text) == rate


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("36h", 1.5),
        ("90D", 90),
        ("12w", 84),
        ("36m", 0.025),
        ("864s", 0.01),
        ("0d", None),
        ("-90d", None),
        ("1.5d", None),
        ("d", None),
    ],
)
def test_an_age_has_a_unit(text: str, days: float | None) -> None:
    assert parsed_or_none(parse_age, text) == (None if days is None else days * DAY_SECONDS)


@pytest.mark.parametrize(("text", "days"), [("90d", 90), ("12w", 84), ("36h", 1.5), ("3m", None), ("90s", None)])
def test_the_rest_before_an_archive_is_hours_or_more(text: str, days: float | None) -> None:
    assert parsed_or_none(parse_rest, text) == (None if days is None else days * DAY_SECONDS)


def parsed_or_none(parse: Any, text: str) -> float | None:
    try:
        return float(parse(text))
    except typer.BadParameter:
        return None


def named_options(command: Any, name: str, path: str = "") -> dict[str, str]:
    """The help of the options of that name, by command."""
    loaded = command.load() if isinstance(command, LazyCommand) else command
    found = {path.strip(): option.help for option in loaded.params if option.name == name}
    for below, one in getattr(loaded, "commands", {}).items():
        found |= named_options(one, name, f"{path} {below}")
    return found


def test_a_tenant_is_named_in_one_way_everywhere() -> None:
    found = named_options(get_command(app), "tenant")

    # A turn or a key that is made has a tenant; all other commands look for rows, of every tenant unless one is named.
    assert "tenant of the new turns" in found.pop("submit")
    assert "turns the key is for" in found.pop("key create")
    assert found.pop("erase") == "The tenant."
    secrets = [name for name in found if name.startswith("webhook-secret")]
    assert {found.pop(name) for name in secrets} <= {"The tenant whose webhooks it signs.", "Only of this tenant."}
    assert {"list", "status", "cancel", "redrive", "dlq list", "dlq show", "dlq export", "dlq drop"} <= found.keys()
    assert set(found.values()) == {"Only of this tenant."}


def test_every_option_is_an_environment_variable_as_well() -> None:
    ran = invoke_plain("list", TURNSTILE_LIST_STATUS="nope")

    assert (ran.code, "nope" in ran.err) == (ExitCode.USAGE, True)


def test_a_wrong_value_of_a_variable_is_named_after_the_variable() -> None:
    ran = invoke_plain("worker", TURNSTILE_CONCURRENCY="three")

    assert ran.err == "turnstile: TURNSTILE_CONCURRENCY: 'three' is not a whole number (see turnstile worker --help)\n"


def test_no_variable_answers_a_question() -> None:
    ran = invoke_plain("migrate", "--down", "--revision=base", TURNSTILE_MIGRATE_YES="1", DATABASE_URL=NOWHERE)
    ignored, refused = ran.err.splitlines()

    assert ran.code == ExitCode.USAGE
    assert ignored == "turnstile: not settings, so without effect: TURNSTILE_MIGRATE_YES"
    assert "give --yes" in refused


def test_a_deployments_own_version_variable_is_not_an_option() -> None:
    assert invoke_plain("queues", "--help", TURNSTILE_VERSION="2026.08.1").code == ExitCode.OK
