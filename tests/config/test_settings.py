"""Settings: where their values come from, and which values are refused."""

import json
import re
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.config.refusals import refusal
from turnstile.config.config_file import load
from turnstile.errors import UnknownQueueError
from turnstile.process.database_role import connecting_as

KEYS = "acme:0123456789abcdef,other:fedcba9876543210"


# --- where values come from


def test_with_nothing_set_there_is_one_queue_called_turns() -> None:
    settings = load()

    assert [(queue.name, queue.sqs, queue.dlq) for queue in settings.queues] == [("turns", "turns", "turns-dlq")]


def test_queues_are_declared_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "turnstile.toml").write_text(
        '[[queues]]\nname = "chat"\nmax_attempts = 7\n[[queues]]\nname = "bulk"\nsqs = "https://sqs/1/bulk.fifo"\n'
    )
    settings = load()

    assert settings.find_queue("chat").max_attempts == 7
    assert settings.find_queue("bulk").dlq == "https://sqs/1/bulk-dlq.fifo"


def test_no_name_selects_all_declared_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_QUEUES", json.dumps([{"name": "chat"}, {"name": "bulk"}]))
    settings = load()

    assert (settings.select_queues(None), settings.select_queues("bulk")) == (["chat", "bulk"], ["bulk"])
    with pytest.raises(UnknownQueueError):
        settings.select_queues("vip")


def test_the_environment_declares_queues_as_json_and_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "turnstile.toml").write_text('[[queues]]\nname = "chat"\n')
    monkeypatch.setenv("TURNSTILE_QUEUES", json.dumps([{"name": "vip", "timeout_seconds": 12.5}]))

    assert [(queue.name, queue.timeout_seconds) for queue in load().queues] == [("vip", 12.5)]


def test_a_file_may_begin_with_the_mark_of_utf_8(tmp_path: Path) -> None:
    (tmp_path / "turnstile.toml").write_text('[[queues]]\nname = "chat"\n', encoding="utf-8-sig")

    assert [queue.name for queue in load().queues] == ["chat"]


def test_an_option_of_the_command_line_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_CONCURRENCY", "3")

    assert load(concurrency=5).concurrency == 5
    assert load(concurrency=None).concurrency == 3


# --- what is refused, and how


def test_one_error_names_every_offending_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_CONCURRENCY", "0")
    monkeypatch.setenv("TURNSTILE_LOG_LEVEL", "loud")
    monkeypatch.setenv("TURNSTILE_LEASE_SECONDS", "soon")
    monkeypatch.setenv("TURNSTILE_QUEUES", '[{"name": "a b"}]')
    message = refusal()

    for name in ("TURNSTILE_CONCURRENCY", "TURNSTILE_LOG_LEVEL", "TURNSTILE_LEASE_SECONDS", "TURNSTILE_QUEUES"):
        assert name in message


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("TURNSTILE_RESEND_SECONDS", "nan", ".*"),
        ("TURNSTILE_RESEND_SECONDS", "0", ".*"),
        ("TURNSTILE_QUEUES", "[{", ".*"),
        ("TURNSTILE_QUEUES", '{"name": "a"}', ".*"),
        ("TURNSTILE_QUEUES", "", "is empty: remove it, or declare at least one queue"),
        (
            "TURNSTILE_CONFIG",
            "elsewhere.toml",
            r"the file elsewhere\.toml does not exist; create it, or correct the variable",
        ),
        ("TURNSTILE_API_KEY", "pass-word\n", "must be printable ASCII.*"),
        ("TURNSTILE_API_KEY", "pass-word-schlüssel", "must be printable ASCII.*"),
        ("DATABASE_URL", "", "must be postgresql://.*"),
        ("DATABASE_URL", "mysql://a:pass-word@db/x", "must be postgresql://.*"),
        ("DATABASE_URL", "postgresql+asyncpg://a:pass-word@db/x", "must be postgresql://.*"),
        ("DATABASE_URL", "postgresql://a:pass-word@db:port/x", "must be postgresql://.*"),
        ("DATABASE_URL", "postgresql://a:%pass-word@db/x", ".* with % @ : / of the password as %25 %40 %3A %2F"),
        # Without this, libpq would say that it finds no host `pass-word@db`.
        ("DATABASE_URL", "postgresql://a:x@pass-word@db/x", ".* with % @ : / of the password as %25 %40 %3A %2F"),
        ("REDIS_URL", "redis://cache/pass-word", "must end with the number of a database, as redis://HOST:6379/0"),
        ("ECS_AGENT_URI", "169.254.170.2", "must be an http URL, such as http://HOST:PORT"),
        ("ECS_AGENT_URI", "https://agent", "must be an http URL, such as http://HOST:PORT"),
        ("ECS_AGENT_URI", "http://agent:port", "must be an http URL, such as http://HOST:PORT"),
        ("TURNSTILE_API_URL", "ftp://a:pass-word@api", "must be http://HOST or https://HOST.*"),
        ("TURNSTILE_API_URL", "localhost:8080", "must be http://HOST or https://HOST.*"),
        ("TURNSTILE_API_URL", "http://[::1", "must be http://HOST or https://HOST.*"),
        ("TURNSTILE_API_URL", "http://api:port", "must be http://HOST or https://HOST.*"),
        ("TURNSTILE_API_URL", "http://", "must be http://HOST or https://HOST.*"),
    ],
)
def test_an_invalid_value_is_refused_and_not_quoted(
    variable: str, value: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    message = refusal()

    assert re.fullmatch(f"{variable}: {complaint}", message)
    assert "pass-word" not in message


@pytest.mark.parametrize("text", [b"[[queues]\n", b"queues = 3\n", b'[[queues]]\nname = "\xff"\n'])
def test_a_file_that_declares_no_queues_is_refused_by_its_name(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "turnstile.toml").write_bytes(text)

    assert "turnstile.toml" in refusal()


def test_an_unknown_name_in_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "turnstile.toml").write_text('lease_seconds = 3\n[[queues]]\nname = "a"\n')

    assert "turnstile.toml: unknown: lease_seconds" in refusal()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://db/x",
        "postgres://a@db:5433,other:5434/x",
        "postgresql+psycopg://db/x",
        "host=db dbname=x",
        "host=@abstract,db dbname=x",
    ],
)
def test_every_form_of_a_database_url_is_accepted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", url)

    assert load().database_url == url


@pytest.mark.parametrize("name", ["turnstile", "chat_turns", "_1", "public", "pgqueue", "x" * 63])
def test_a_plain_name_of_a_schema_is_accepted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_DATABASE_SCHEMA", name)

    assert load().database.schema == name


@pytest.mark.parametrize(
    "name",
    ["", "Turns", "1st", "a-b", "a, b", 'a"b', "a.b", "$user", "é", "x" * 64, "pg_turns", "information_schema", "a\n"],
)
def test_a_name_of_a_schema_that_needs_quotes_or_is_postgres_s_own_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNSTILE_DATABASE_SCHEMA", name)

    assert "DATABASE_SCHEMA: must be 1 to 63 of a-z 0-9 _" in refusal()


@pytest.mark.parametrize(
    "fields", [{"name": "arn:aws:sqs:us-east-1:1:a"}, {"name": "a", "dlq": "arn:aws:sqs:us-east-1:1:a"}]
)
def test_the_arn_of_a_queue_is_refused(fields: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_QUEUES", json.dumps([fields]))

    assert refusal().endswith("TURNSTILE_QUEUES, queue 1: dlq: is an ARN: use the name or the URL of the queue")


def test_a_fault_in_the_file_is_named_by_the_file_and_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNSTILE_CONFIG", "bad.toml")
    (tmp_path / "bad.toml").write_text('[[queues]]\nname = "a"\nmax_atempts = 3\n[[queues]]\nnmae = "b"\n')

    assert refusal() == (
        "bad.toml, queue 1: max_atempts: is not an option of a queue; "
        "bad.toml, queue 2: name: Field required; bad.toml, queue 2: nmae: is not an option of a queue"
    )


def test_a_queue_of_the_file_that_is_not_a_table_is_named_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "turnstile.toml").write_text('queues = ["a"]\n')

    assert refusal().startswith("turnstile.toml, queue 1: Input should be")


def test_a_fault_in_the_variable_is_named_by_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "turnstile.toml").write_text('[[queues]]\nname = "a"\n')
    monkeypatch.setenv("TURNSTILE_QUEUES", '[{"name": "a"}, {"nmae": "b", "name": "c"}]')

    assert refusal() == "TURNSTILE_QUEUES, queue 2: nmae: is not an option of a queue"


# --- rules that span settings


@pytest.mark.parametrize(
    ("overrides", "rule"),
    [
        ({"heartbeat_seconds": 30.0}, "TURNSTILE_LEASE_SECONDS (30) must be longer than a heartbeat (30 s"),
        (
            {"watchdog_seconds": 20.0},
            "TURNSTILE_WATCHDOG_SECONDS (20) must be more than twice as long as a heartbeat (10 s",
        ),
        ({"lease_seconds": 61.0}, "visibility timeout of queue 'turns'"),
        ({"queues": [{"name": "a"}, {"name": "a", "sqs": "b"}]}, "declared only once"),
        ({"queues": [{"name": "a", "sqs": "x"}, {"name": "b", "sqs": "x"}]}, "dead-letter queue of its own"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(overrides: dict[str, object], rule: str) -> None:
    assert rule in refusal(**overrides)


def test_the_heartbeat_is_a_third_of_the_lease_by_default() -> None:
    assert load(lease_seconds=9.0).heartbeat == 3.0


def test_the_timeout_of_redis_is_a_tenth_of_the_lease_at_most() -> None:
    assert load(lease_seconds=0.5).redis_timeout_seconds == 0.05


# --- keys


@pytest.mark.parametrize(
    ("overrides", "may_be_open"),
    [
        ({}, True),
        ({"api_host": "localhost"}, True),
        ({"api_host": "::"}, False),
        ({"api_host": ""}, False),
        ({"api_host": "127.0.0.2"}, False),
        ({"api_host": "::", "api_serves_strangers_without_keys": "true"}, True),
    ],
    ids=str,
)
def test_only_at_the_loopback_address_may_an_api_be_open_unless_told_otherwise(
    overrides: dict[str, str], may_be_open: bool
) -> None:
    assert load(**overrides).may_be_open is may_be_open


def test_keys_are_pairs_of_tenant_and_key() -> None:
    assert load(api_keys=" acme:0123:4567,other:fedcba9876543210,").api_keys == (
        ("acme", "0123:4567"),
        ("other", "fedcba9876543210"),
    )


@pytest.mark.parametrize("text", [":secret-secret", "acme:short", "a b:secret-secret", "a:secret-s,b:secret-s"])
def test_keys_that_are_refused_are_not_quoted(text: str) -> None:
    message = refusal(api_keys=text)

    assert "API_KEYS" in message
    assert "secret-s" not in message
    assert "short" not in message


def test_no_secret_is_in_the_representation() -> None:
    settings = load(
        api_keys=KEYS,
        api_key="0123456789abcdef",
        database_url="postgresql://app:pass-word@db/x",
        redis_url="rediss://app:pass-word@cache",
        database_roles={"api": "app:pass-word"},
    )

    for secret in ("0123456789abcdef", "fedcba9876543210", "pass-word"):
        assert secret not in repr(settings)
        assert secret not in str(settings)


# --- roles of the database


def test_one_environment_gives_each_process_its_role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql+psycopg://boss:secret@db:5433/chat?sslmode=require")
    monkeypatch.setenv("TURNSTILE_DATABASE_ROLES", '{"api": "web:it\'s: mine"}')
    settings = load()

    assert conninfo_to_dict(connecting_as(settings, "api").database.libpq_url) == {
        "user": "web", "password": "it's: mine", "host": "db", "port": "5433", "dbname": "chat", "sslmode": "require",
    }  # fmt: skip
    assert connecting_as(settings, "worker") == settings


@pytest.mark.parametrize("text", ["[", "[]", '{"api": "secret"}', '{"api": 7}', '{"boss": "boss:secret"}'])
def test_roles_that_are_refused_are_not_quoted(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TURNSTILE_DATABASE_ROLES", text)

    message = refusal()

    assert message.startswith("TURNSTILE_DATABASE_ROLES: ")
    assert "secret" not in message


# --- webhooks


SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_webhooks_are_off_until_hosts_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().webhook_hosts == ()
    monkeypatch.setenv("TURNSTILE_WEBHOOK_HOSTS", "Hooks.example.com, *.example.org:8443")
    monkeypatch.setenv("TURNSTILE_WEBHOOK_SECRETS", SECRET)

    settings = load()

    assert settings.webhook_hosts == ("hooks.example.com", "*.example.org:8443")
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(
    ("hosts", "secrets", "offending"),
    [
        ("hooks.example.com", "", "TURNSTILE_WEBHOOK_SECRETS"),
        ("hooks.example.com", "whsec_0123secret", "TURNSTILE_WEBHOOK_SECRETS"),
        ("https://hooks.example.com", SECRET, "TURNSTILE_WEBHOOK_HOSTS"),
        ("a.*.example.com", SECRET, "TURNSTILE_WEBHOOK_HOSTS"),
    ],
)
def test_invalid_webhook_settings_are_refused_and_not_quoted(hosts: str, secrets: str, offending: str) -> None:
    message = refusal(webhook_hosts=hosts, webhook_secrets=secrets)

    assert offending in message
    assert "0123secret" not in message


# --- ECS


def test_the_address_of_the_ecs_agent_loses_its_slash_and_empty_means_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECS_AGENT_URI", "http://169.254.170.2/api/0123/")
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", "")
    settings = load()

    assert (settings.ecs_agent_uri, settings.ecs_metadata_uri) == ("http://169.254.170.2/api/0123", None)


# --- the operator


def test_the_name_of_the_operator_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_OPERATOR", " Ada Lovelace ")

    assert load().operator == "Ada Lovelace"
    assert "TURNSTILE_OPERATOR" in refusal(operator="Ada\nturn.failed")
