"""The number of messages in a DLQ, in words."""

import pytest

from turnstile.ops.commands.dlq import count_in_words


@pytest.mark.parametrize(
    ("count", "words"),
    [(None, "unknown, SQS is away"), (0, "about 0 messages"), (1, "about 1 message"), (2, "about 2 messages")],
)
def test_a_count_is_singular_for_one_message(count: int | None, words: str) -> None:
    assert count_in_words(count) == words
