"""What a submit in the caller's transaction takes from the settings, and from whom: the schema, the queues, the environment."""

import psycopg
import pytest

from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import SettingsError, UnknownQueueError
from turnstile.ops.migration_run import apply
from turnstile.submission.callers_transaction import Submitter


def test_the_schema_is_that_of_the_settings(bare_url: str) -> None:
    apply(DatabasePlace(bare_url, "ours"))
    submitter = Submitter(Settings(database_schema="ours", queues=(QueueSettings(name="turns"),)))

    with psycopg.connect(bare_url) as connection:
        submitted = submitter.submit(connection, "s", "Hello")

        found = connection.execute("SELECT id FROM ours.turns").fetchall()
    assert found == [(submitted.id,)]


def test_without_settings_the_first_submit_reads_the_environment(
    application_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitter = Submitter()
    monkeypatch.setenv("TURNSTILE_QUEUES", '[{"name": "nights"}]')
    with psycopg.connect(application_url) as connection:
        submitted = submitter.submit(connection, "s", "Hello")
        monkeypatch.setenv("TURNSTILE_QUEUES", '[{"name": "days"}]')
        with pytest.raises(UnknownQueueError):
            submitter.submit(connection, "s", "Hello", queue="days")

    assert submitted.queue == "nights"


def test_settings_that_are_wrong_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_SEALING_KEYS_FILE", "/nowhere/keys.json")
    with pytest.raises(SettingsError, match="TURNSTILE_SEALING_KEYS_FILE"):
        Submitter(Settings(queues=(QueueSettings(name="turns"),)))
