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

from turnstile.examples.conversations import Conversation, ConversationError, load
from turnstile.examples.eliza_engine import REPLY_LIMIT, Said, replay, reply
from turnstile.examples.eliza_script import FRAMES, RULES

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "eliza").glob("*.txt"))
CONVERSATIONS = load()
HANG_SECONDS = 60
"""What takes longer has gone through a text once for each of its words."""

BY_NAME = {conversation.name: conversation for conversation in CONVERSATIONS}

any_text = st.text(st.characters(), max_size=300)
clean_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=300)


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


def test_there_are_golden_transcripts() -> None:
    assert len(GOLDEN) >= 6


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


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda conversation: conversation.name)
def test_any_two_remarks_swapped_show_in_the_reply_to_a_third(conversation: Conversation) -> None:
    remarks = conversation.remarks
    replies = replay(remarks)
    for name, changed in swaps(remarks, adjacent=False):
        places = undisturbed_places(remarks, changed)
        answers = replay(changed)
        assert not places or any(answers[place] != replies[place] for place in places), name


@given(histories(any_text), any_text)
def test_never_raises_and_says_something_of_bounded_length(history: list[Said], text: str) -> None:
    answer = reply(history, text)
    assert answer.strip()
    assert len(answer) <= REPLY_LIMIT
    assert "\n" not in answer


@given(histories(clean_text), clean_text)
def test_clean_input_gives_clean_output(history: list[Said], text: str) -> None:
    answer = reply(history, text)
    assert "\0" not in answer
    answer.encode("utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \t\n",
        "\0\0",
        "\ud800",
        "\u202eback to front",
        "{0} {body} %s {last.verb}",
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


def test_it_returns_to_an_earlier_remark() -> None:
    answers = replay(["My sister moved to Oslo.", "Rain.", "Hm, the tram.", "Blue, mostly.", "Also green."])
    assert any("your sister moved to Oslo" in answer for answer in answers[3:])


def test_it_turns_pronouns_round() -> None:
    second = replay(["I told you that my brother and I were late.", "Yes."])[1]
    assert "you told me that your brother and you were late" in second


def test_it_notices_a_repetition() -> None:
    assert "second exchange" in replay(["Hello.", "The roof leaks.", "It is wet.", "the roof LEAKS."])[3]


def test_it_notices_a_word_that_keeps_coming() -> None:
    assert "“deadline”" in replay(["The deadline moved.", "Which deadline?", "Oh, the deadline."])[2]


def test_a_rule_does_not_use_the_same_line_twice_in_a_row() -> None:
    answers = replay(["My brother called.", "My brother wrote.", "My aunt came."])
    kin = next(rule for rule in RULES if rule.name == "kin")
    used = [next(line for line in kin.lines if line.format(who) in answer)
            for who, answer in zip(["brother", "brother", "aunt"], answers, strict=True)]  # fmt: skip
    assert len(set(used)) == 3


def test_a_short_answer_is_held_against_the_question() -> None:
    history = [Said("user", "Hm, well then."), Said("assistant", "I see. Who told you?")]
    assert "“Who told you?”" in reply(history, "Yes.")


def test_every_frame_carries_the_answer_and_a_recent_remark() -> None:
    for row in FRAMES:
        for frame in row:
            assert "{body}" in frame
            assert "{last.words}" in frame or "{before.words}" in frame
    everything = [frame for row in FRAMES for frame in row]
    assert len(set(everything)) == len(everything)


def test_every_line_of_every_rule_can_be_filled() -> None:
    for rule in RULES:
        for line in rule.lines:
            fewest = min(pattern.count("+") + pattern.count("@") for pattern in rule.patterns)
            assert line.format(*["something"] * fewest)


def test_there_are_forty_conversations_of_six_to_ten_remarks() -> None:
    assert [conversation.name for conversation in CONVERSATIONS] == [f"{number:03}" for number in range(1, 41)]
    assert all(6 <= len(conversation.remarks) <= 10 for conversation in CONVERSATIONS)
    assert sum(not remark.isascii() for conversation in CONVERSATIONS for remark in conversation.remarks) >= 15


def test_comments_blank_lines_and_a_byte_order_mark_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("\ufeff# title\n\n one \r\n# more\ntwo\u2028still two\n", encoding="utf-8")
    (tmp_path / "a.txt").write_text("x", encoding="utf-8")
    assert load(tmp_path) == [Conversation("a", ("x",)), Conversation("b", ("one", "two\u2028still two"))]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe", "bad.txt: not UTF-8 at byte 0"), (b"# only\n", "bad.txt: holds no remark"), (b"a\0b", "U\\+0000")],
    ids=["encoding", "empty", "nul"],
)
def test_a_bad_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "bad.txt").write_bytes(content)
    with pytest.raises(ConversationError, match=message):
        load(tmp_path)


def test_a_bad_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConversationError, match="no conversations"):
        load(tmp_path)
    with pytest.raises(ConversationError, match=r"no such folder.*elsewhere"):
        load(tmp_path / "elsewhere")
