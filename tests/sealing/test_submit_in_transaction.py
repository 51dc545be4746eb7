"""A submit in the caller's transaction seals its input with the keys of its settings, as the API does."""

import psycopg
import pytest

from tests.support.stored_text import columns_with
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import FirstRequestSealedError, IdempotencyMismatchError
from turnstile.queries.turns import read_turn
from turnstile.submission.callers_transaction import Submitter


async def test_the_input_is_sealed_and_a_repeat_is_told_from_another_request(
    database: Database, settings: Settings
) -> None:
    submitter = Submitter(settings)
    without_keys = Submitter(settings.model_copy(update={"sealing_keys_file": None}))
    with psycopg.connect(settings.database_url) as connection:
        first = submitter.submit(connection, "s", {"say": "canary-in"}, key="k")
        again = submitter.submit(connection, "s", {"say": "canary-in"}, key="k")
        with pytest.raises(IdempotencyMismatchError):
            submitter.submit(connection, "s", {"say": "canary-else"}, key="k")
        with pytest.raises(FirstRequestSealedError):
            without_keys.submit(connection, "s", {"say": "canary-in"}, key="k")

    shown = await read_turn(database, "default", first.id)
    assert shown is not None
    assert shown.inputs == [{"say": "canary-in"}]
    assert again.repeated
    assert await columns_with(database, "canary-") == []
