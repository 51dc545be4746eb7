"""The offline conversational program, its conversations and its golden transcripts.

After a wanted change of rules or conversations: `python -m tests.golden.regenerate`, and read the diff.
"""

import difflib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.examples.conversations import Conversation, load
from turnstile.examples.eliza_engine import SCRIPT, Said, replay, reply

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "eliza").glob("*.txt"))
CONVERSATIONS = load()
REPLY_LIMIT = 600
HANG_SECONDS = 60
"""What takes longer has gone through a text once for each of its words."""

BY_NAME = {conversation.name: conversation for conversation in CONVERSATIONS}

any_text = st.text(st.characters(), max_size=300)
words = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12)


def histories(text: st.SearchStrategy[str]) -> st.SearchStrategy[list[Said]]:
    return st.lists(st.builds(Said, st.sampled_from(["user", "assistant"]), text), max_size=12)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_transcript(path: Path) -> None:
    conversation = BY_NAME[path.stem]
    expected = path.read_text(encoding="utf-8")
    actual = conversation.transcript(replay(conversation.remarks))
    if actual != expected:
        difference = difflib.unified_diff(
            expected.splitlines(), actual.splitlines(), f"golden {path.name}", "now", lineterm="", n=1
        )
        pytest.fail(
            "\n".join([*difference, "", f"if this is wanted: python -m tests.golden.regenerate {path.stem}"]),
            pytrace=False,
        )


def losses_and_doublings(remarks: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for at in range(len(remarks)):
        yield f"{at} lost", remarks[:at] + remarks[at + 1 :]
        yield f"{at} doubled", remarks[: at + 1] + remarks[at:]


def swaps(remarks: tuple[str, ...], *, adjacent: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    for left in range(len(remarks)):
        for right in range(left + 1, left + 2 if adjacent else len(remarks)):
            if right < len(remarks) and remarks[left] != remarks[right]:
                swapped = list(remarks)
                swapped[left], swapped[right] = remarks[right], remarks[left]
                yield f"{left} and {right} swapped", tuple(swapped)


def undisturbed_places(remarks: tuple[str, ...], changed: tuple[str, ...]) -> list[int]:
    """Places, from the end, of the same remark after a different past: only the past can make its reply differ."""
    shortest = min(len(remarks), len(changed))
    return [
        -back
        for back in range(shortest, 0, -1)
        if remarks[-back] == changed[-back] and remarks[:-back] != changed[:-back]
    ]


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda conversation: conversation.name)
def test_a_lost_doubled_or_swapped_remark_shows_in_the_very_next_reply(conversation: Conversation) -> None:
    remarks = conversation.remarks
    replies = replay(remarks)
    for name, changed in [*losses_and_doublings(remarks), *swaps(remarks, adjacent=True)]:
        answers = replay(changed)
        assert answers != replies, name
        for place in undisturbed_places(remarks, changed)[:1]:
            assert answers[place] != replies[place], f"{name}: the reply to {remarks[place]!r} does not show it"


@given(st.lists(words, min_size=6, max_size=9, unique=True), st.data())
def test_order_shows_in_any_conversation_of_distinct_remarks(drawn: list[str], data: st.DataObject) -> None:
    remarks = tuple(drawn)
    disturbances = [*losses_and_doublings(remarks), *swaps(remarks, adjacent=True)]
    name, changed = data.draw(st.sampled_from(disturbances))
    replies, answers = replay(remarks), replay(changed)
    for place in undisturbed_places(remarks, changed)[:1]:
        assert answers[place] != replies[place], name


@given(histories(any_text), any_text)
def test_never_raises_and_says_something_of_bounded_length(history: list[Said], text: str) -> None:
    answer = reply(history, text)
    assert answer.strip()
    assert len(answer) <= REPLY_LIMIT
    assert not {"\n", "\0"} & {*answer}
    answer.encode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \t\n",
        "\0\0",
        "\ud800",
        "\u202eback to front",
        "{0} {body} %s {last}",
        "“”",
        "a" * 300_000,
        "I my " * 60_000,
    ],
    ids=["empty", "blank", "nul", "surrogate", "direction", "format", "quotes", "one long word", "many words"],
)
def test_odd_texts(text: str) -> None:
    history = [Said("user", text), Said("assistant", text), Said("user", "And that was that.")]
    started = time.perf_counter()
    for answer in (reply([], text), reply(history, text), reply(history, "yes")):
        assert 0 < len(answer) <= REPLY_LIMIT
        assert not set(answer) & set("\0\ud800\u202e")
    assert time.perf_counter() - started < HANG_SECONDS


def test_a_hundred_long_messages_are_answered_quickly() -> None:
    history = [Said("user" if index % 2 == 0 else "assistant", "I said so because " * 4_000) for index in range(100)]
    started = time.perf_counter()
    reply(history, "Well?")
    assert time.perf_counter() - started < HANG_SECONDS


def test_it_turns_pronouns_round() -> None:
    answers = " ".join(replay(["I cannot find my keys", "I can't find my keys today", "I cannot find my keys now"]))
    assert "you could find your keys" in answers


def test_a_rule_does_not_use_the_same_line_twice_in_a_row() -> None:
    answers = replay(["My brother called.", "My brother wrote.", "My brother came."])
    kin = next(rule["lines"] for rule in SCRIPT["rules"] if rule["patterns"] == ["my @family"])
    used = [next(line for line in kin if line.format("brother") in answer) for answer in answers]
    assert len(set(used)) == 3


def test_every_frame_carries_the_answer_and_the_last_remark() -> None:
    for frame in [frame for row in SCRIPT["frames"] for frame in row["lines"]]:
        assert "{body}" in frame
        assert "{last}" in frame


def test_there_are_forty_conversations_of_six_to_ten_remarks() -> None:
    assert [conversation.name for conversation in CONVERSATIONS] == [f"{number:03}" for number in range(1, 41)]
    assert all(6 <= len(conversation.remarks) <= 10 for conversation in CONVERSATIONS)
    assert sum(not remark.isascii() for conversation in CONVERSATIONS for remark in conversation.remarks) >= 15
