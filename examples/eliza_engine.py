"""The conversational program itself: a pure function from the history and a new remark to the answer.

It stores nothing between calls. Each call derives the whole state from the history, so any worker can answer any turn, and a
history with a lost, duplicated or reordered turn leads to visibly different answers.
"""

import re
import unicodedata
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from turnstile.examples import eliza_script as script
from turnstile.examples.eliza_script import Rule

REPLY_LIMIT = 600
_ECHO_LIMIT = 64
_QUESTION_LIMIT = 90
# Only this much of a remark is searched: the patterns backtrack, and the end of a long essay is not worth an answer.
_ATTENTION_LIMIT = 600
_TEXT_LIMIT = 4_000
_NOTABLE_WORD_LENGTH = 5
_RECURRENCE = 3


class Remark(Protocol):
    """One message of a session; `role` is "user" or "assistant"."""

    @property
    def role(self) -> str: ...
    @property
    def content(self) -> str: ...


@dataclass(frozen=True)
class Said:
    role: str
    content: str


@dataclass(frozen=True)
class Echo:
    """An earlier remark in a form that fits after "you": `you {verb} {words}`."""

    verb: str
    words: str


def reply(history: Sequence[Remark], text: str) -> str:
    """The answer to `text` after `history` (oldest first, without `text`)."""
    mind = _Mind()
    for remark in history:
        if remark.role == "user":
            mind.hear(_tidy(remark.content))
        else:
            mind.question = _last_question(_tidy(remark.content))
    return mind.answer(_tidy(text))


def replay(remarks: Iterable[str]) -> list[str]:
    """The replies of an undisturbed session with these remarks. Any run of the session must give the same replies."""
    history: list[Said] = []
    replies: list[str] = []
    for text in remarks:
        replies.append(reply(history, text))
        history += [Said("user", text), Said("assistant", replies[-1])]
    return replies


class _Mind:
    def __init__(self) -> None:
        self.question = ""
        self._opening = 0
        self._remarks: list[str] = []
        self._rule_uses: Counter[str] = Counter()
        self._word_uses: Counter[str] = Counter()
        self._memory: deque[int] = deque()

    def answer(self, text: str) -> str:
        body = self.hear(text)
        earlier = self._remarks[:-1]
        if not earlier:
            return body
        number = len(self._remarks)
        row = script.FRAMES[(number - 2) % len(script.FRAMES)]
        frame = row[self._opening % len(row)]
        return _sentence(
            frame.format(
                body=body,
                last=_echo(earlier[-1]),
                before=_echo(earlier[max(-2, -len(earlier))]),
                ordinal=_ordinal(number),
            )
        )

    def hear(self, text: str) -> str:
        """Adds a remark to the state, and returns the answer to this remark alone. Also runs for each past remark, because
        the used rules and memories are part of the state."""
        if not self._remarks:
            # The first remark selects the wording, so that the same exchange differs between conversations.
            self._opening = zlib.crc32(text.encode()) >> 8
        rule, captures, fields = self._interpret(text)
        line = rule.lines[(self._rule_uses[rule.name] + self._opening) % len(rule.lines)]
        body = _sentence(line.format(*captures, remark=_quoted(text), question=self.question, **fields))
        self._rule_uses[rule.name] += 1
        if rule.remember:
            self._memory.append(len(self._remarks))
        self._word_uses.update(_notable_words(text))
        self._remarks.append(text)
        return body

    def _interpret(self, text: str) -> tuple[Rule, tuple[str, ...], dict[str, object]]:
        if not text:
            return script.SILENCE, (), {}
        if not any(character.isalnum() for character in text):
            return script.PICTURE, (), {}
        folded = text.casefold()
        if self.question and folded.rstrip(".!… ") in script.SHORT_ANSWERS:
            return script.SHORT_ANSWER, (), {}
        for position, earlier in enumerate(self._remarks, start=1):
            if earlier.casefold() == folded:
                return script.REPETITION, (), {"ordinal": _ordinal(position)}
        if language := _foreign_language(text):
            return script.FOREIGN, (), {"language": language}
        for word in sorted(_notable_words(text)):
            if self._word_uses[word] == _RECURRENCE - 1:
                return script.RECURRENCE, (), {"word": word, "ordinal": _ordinal(_RECURRENCE)}
        if match := _best_rule(text):
            return *match, {}
        # The frame around this answer already names the last two remarks, so it does not return to them.
        if self._memory and self._memory[0] < len(self._remarks) - 2:
            return script.RETURN, (), {"memory": _echo(self._remarks[self._memory.popleft()])}
        return script.FALLBACK, (), {}


def _compiled(pattern: str) -> re.Pattern[str]:
    anchor = "^" if pattern.startswith("^") else r"(?<![\w'])"
    parts = []
    for token in pattern.removeprefix("^").split():
        if token == "+":  # noqa: S105 - a wildcard, not a secret
            parts.append("(.+)")
        elif token.startswith("@"):
            parts.append(f"({'|'.join(script.WORD_CLASSES[token[1:]].split())})")
        else:
            parts.append(f"(?:{token})")
    return re.compile(anchor + r"\s+".join(parts) + r"(?![\w'])", re.IGNORECASE)


_CLASS_WORDS = frozenset(word for words in script.WORD_CLASSES.values() for word in words.split())
_PATTERNS = [
    (rule, _compiled(pattern))
    for rule in sorted(script.RULES, key=lambda rule: -rule.rank)
    for pattern in rule.patterns
]  # fmt: skip
_CLAUSE_END = re.compile(r"[.!?;:,…。！？、]+(?:\s+|$)|\s+[-–—]\s+|\s+(?:but|and then)\s+", re.IGNORECASE)  # noqa: RUF001
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")  # noqa: RUF001
_MARKER_WORDS = {language: frozenset(words.split()) for language, words in script.LANGUAGES.items()}
# Databases refuse the first two kinds. The third would reverse the direction of all later text on a terminal.
_TIDIED: dict[int, str | None] = {
    **dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), " "),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A))),
    ord("’"): "'",  # noqa: RUF001
}


# Each turn processes all remarks of its session again. Results that depend on one text alone are cached.
@lru_cache(maxsize=2_048)
def _best_rule(text: str) -> tuple[Rule, tuple[str, ...]] | None:
    expanded = " ".join(script.CONTRACTIONS.get(word.lower(), word) for word in text[:_ATTENTION_LIMIT].split())
    clauses = [clause for clause in _CLAUSE_END.split(expanded) if clause.strip()]
    for rule, pattern in _PATTERNS:
        for clause in clauses:
            if match := pattern.search(clause):
                return rule, tuple(_captured(group) for group in match.groups())
    return None


def _captured(words: str) -> str:
    return words.lower() if words.lower() in _CLASS_WORDS else _shortened(_reflected(words))


def _reflected(words: str) -> str:
    """The words from the other person's view: "my sister and I" becomes "your sister and you"."""
    result: list[str] = []
    tokens = words.split()
    for position, token in enumerate(tokens):
        bare = token.strip('.,;:!?"“”()')
        word = bare.lower()
        before = tokens[position - 1].lower() if position else ""
        after = tokens[position + 1].lower().strip(".,;:!?") if position + 1 < len(tokens) else ""
        if word == "you":
            subject = before in script.WORDS_BEFORE_SUBJECT or after in script.VERBS_AFTER_SUBJECT
            turned = "I" if position == 0 or subject else "me"
        elif word == "was" and before == "i":
            turned = "were"
        elif word in ("are", "were") and before == "you":
            turned = "am" if word == "are" else "was"
        elif word == "am" and before != "i" and after != "i":
            turned = word
        else:
            turned = script.REFLECTIONS.get(word, "")
        result.append(token.replace(bare, turned, 1) if turned else token)
    return " ".join(result)


def _echo(remark: str) -> Echo:
    if not remark:
        return Echo("said", "nothing at all")
    sentence = max(_SENTENCE_END.split(remark), key=len).strip()
    opener, _, rest = sentence.partition(" ")
    if sentence.endswith(("?", "？")):  # noqa: RUF001
        return Echo("asked", _quoted(sentence))
    opener = opener.lower()
    if opener not in script.CLAUSE_OPENERS | script.TIME_OPENERS or _foreign_language(remark):
        return Echo("said", _quoted(sentence))
    clause = _shortened(_reflected(f"{opener} {rest}").rstrip(".!… "))
    if opener in script.TIME_OPENERS:
        clause = f"that {clause}"
    # Avoids "You said you said yes".
    return Echo("told me" if clause.startswith(("you said", "you say", "she said", "he said")) else "said", clause)


def _quoted(text: str) -> str:
    return f"“{_without_double_quotes(_shortened(text.rstrip('.…。 ') or text))}”"


def _without_double_quotes(text: str) -> str:
    return text.translate(str.maketrans('“”„"', "‘’‚'"))  # noqa: RUF001


def _shortened(text: str, limit: int = _ECHO_LIMIT) -> str:
    if len(text) <= limit:
        return text
    head, _, _ = text[: limit + 1].rpartition(" ")
    # A cut inside a joined emoji or before its variation selector would leave a joiner at the end.
    return (head if len(head) > limit // 2 else text[:limit]).rstrip(" ,;:-\u200d") + "…"


def _sentence(text: str) -> str:
    # Quoted or shortened text already ends with its own full stop or question mark.
    return text[:1].upper() + text[1:].replace("….", "…").replace("?”?", "?”")


def _last_question(text: str) -> str:
    questions = [sentence for sentence in _SENTENCE_END.split(text) if sentence.endswith("?")]
    if not questions:
        return ""
    question = questions[-1].rpartition("; ")[2]
    return _without_double_quotes(_sentence(_shortened(question, _QUESTION_LIMIT)))


@lru_cache(maxsize=2_048)
def _notable_words(text: str) -> frozenset[str]:
    words = re.findall(r"[^\W\d_]+(?:['-][^\W\d_]+)*", text[:_ATTENTION_LIMIT].lower())
    notable = frozenset(word for word in words if _NOTABLE_WORD_LENGTH <= len(word) <= _ECHO_LIMIT)
    return notable - script.PLAIN_WORDS


@lru_cache(maxsize=2_048)
def _foreign_language(text: str) -> str:
    """The name of the language or of its script if the text is clearly not English; else empty."""
    sample = text[:_ATTENTION_LIMIT]
    letters = [character for character in sample if character.isalpha()]
    names = [unicodedata.name(letter, "").partition(" ")[0] for letter in letters]
    scripts = Counter(script.SCRIPTS[name] for name in names if name in script.SCRIPTS)
    if scripts.total() * 2 > len(letters):
        # Japanese also uses Chinese characters; its own syllables distinguish it.
        return "Japanese" if "Japanese" in scripts else scripts.most_common(1)[0][0]
    words = re.findall(r"[^\W\d_]+", sample.lower())
    scores = {language: sum(word in markers for word in words) for language, markers in _MARKER_WORDS.items()}
    best = max(scores, key=lambda language: scores[language])
    return best if scores[best] >= 2 and best != "English" and scores[best] > scores["English"] else ""


def _ordinal(number: int) -> str:
    if number <= len(script.ORDINALS):
        return script.ORDINALS[number - 1]
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _tidy(text: str) -> str:
    """One line of printable text. An echo never contains characters that a database or a terminal can't handle."""
    return " ".join(text[:_TEXT_LIMIT].translate(_TIDIED).split())
