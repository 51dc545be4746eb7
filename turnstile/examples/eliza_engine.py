"""The conversational program itself: a pure function from the history and a new remark to the answer.

It stores nothing between calls, so any worker can answer any turn. A history with a lost, duplicated or reordered turn leads to
visibly different answers.
"""

import re
import tomllib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_QUOTE_LIMIT = 64
# Only this much of a remark is searched: the patterns backtrack, and the end of a long essay is not worth an answer.
_ATTENTION_LIMIT = 600
_TEXT_LIMIT = 4_000

SCRIPT = tomllib.loads(Path(__file__).with_name("eliza.toml").read_text("utf-8"))
_CLASS_WORDS = frozenset(word for words in SCRIPT["classes"].values() for word in words.split())
_CLAUSE_END = re.compile(r"[.!?;:,…。！？、]+(?:\s+|$)|\s+[-–—]\s+|\s+(?:but|and then)\s+", re.IGNORECASE)  # noqa: RUF001
# Databases refuse the first two kinds. The third would reverse the direction of all later text on a terminal.
_TIDIED: dict[int, str | None] = {
    **dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), " "),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A))),
    ord("’"): "'",  # noqa: RUF001
}


@dataclass(frozen=True)
class Said:
    """One message of a session; `role` is "user" or "assistant"."""

    role: str
    content: str


def reply(history: Sequence[Said], text: str) -> str:
    """The answer to `text` after `history` (oldest first, without `text`)."""
    remarks = [_tidy(said.content) for said in history if said.role == "user"] + [_tidy(text)]
    number = len(remarks)
    # The first remark selects the wording, so that the same exchange differs between conversations.
    opening = zlib.crc32(remarks[0].encode()) >> 8
    lines, fields = _choose_lines(remarks)
    body = _sentence(lines[(number + opening) % len(lines)].format(*fields, number=remarks.index(remarks[-1]) + 1))
    if number == 1:
        return body
    row = SCRIPT["frames"][(number - 2) % len(SCRIPT["frames"])]["lines"]
    last, before = _quoted(remarks[-2]), _quoted(remarks[max(-3, -number)])
    return _sentence(row[opening % len(row)].format(body=body, last=last, before=before, number=number))


def replay(remarks: Iterable[str]) -> list[str]:
    """The replies of an undisturbed session with these remarks. Any run of the session must give the same replies."""
    history: list[Said] = []
    replies: list[str] = []
    for text in remarks:
        replies.append(reply(history, text))
        history += [Said("user", text), Said("assistant", replies[-1])]
    return replies


def _choose_lines(remarks: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The lines of the rule for the last remark, and what its pattern captured."""
    *earlier, text = remarks
    if not text:
        return SCRIPT["silence"]["lines"], ()
    if text in earlier:
        return SCRIPT["repetition"]["lines"], ()
    expanded = " ".join(SCRIPT["contractions"].get(word.lower(), word) for word in text[:_ATTENTION_LIMIT].split())
    for lines, pattern in _PATTERNS:
        for clause in _CLAUSE_END.split(expanded):
            if match := pattern.search(clause):
                return lines, [_captured(group) for group in match.groups()]
    return SCRIPT["fallback"]["lines"], ()


def _compiled(pattern: str) -> re.Pattern[str]:
    anchor = "^" if pattern.startswith("^") else r"(?<![\w'])"
    parts = []
    for token in pattern.removeprefix("^").split():
        if token == "+":  # noqa: S105 - a wildcard, not a secret
            parts.append("(.+)")
        elif token.startswith("@"):
            parts.append(f"({'|'.join(SCRIPT['classes'][token[1:]].split())})")
        else:
            parts.append(f"(?:{token})")
    return re.compile(anchor + r"\s+".join(parts) + r"(?![\w'])", re.IGNORECASE)


_PATTERNS = [(rule["lines"], _compiled(pattern)) for rule in SCRIPT["rules"] for pattern in rule["patterns"]]


def _captured(words: str) -> str:
    return words.lower() if words.lower() in _CLASS_WORDS else _shortened(_reflected(words))


def _reflected(words: str) -> str:
    """The words from the other person's view: "my sister and I" becomes "your sister and you"."""
    return re.sub(r"[\w']+", lambda word: SCRIPT["reflections"].get(word[0].lower(), word[0]), words)


def _quoted(text: str) -> str:
    # Its own double quotes would end the quotation.
    words = _shortened(text.rstrip(".…。 ")).translate(str.maketrans('“”„"', "‘’‚'"))  # noqa: RUF001
    return f"“{words}”"


def _shortened(text: str) -> str:
    if len(text) <= _QUOTE_LIMIT:
        return text
    head, _, _ = text[: _QUOTE_LIMIT + 1].rpartition(" ")
    # A cut inside a joined emoji would leave a joiner at the end.
    return (head if len(head) > _QUOTE_LIMIT // 2 else text[:_QUOTE_LIMIT]).rstrip(" ,;:-\u200d") + "…"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _tidy(text: str) -> str:
    """One line of printable text. An answer never contains characters that a database or a terminal can't handle."""
    return " ".join(text[:_TEXT_LIMIT].translate(_TIDIED).split())
