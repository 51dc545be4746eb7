"""What a page asks its reader to run: lines of its `sh` blocks, its `sql` blocks, commands in its sentences. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/runbooks"
INDEX = FOLDER / "README.md"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page != INDEX)

PROGRAMS = ("turnstile", "psql", "redis-cli", "aws", "terraform")

_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_IN_A_SENTENCE = re.compile(rf"`((?:{'|'.join(PROGRAMS)}) [^`]*)`")
_CONTINUED = re.compile(r" *\\\n *")
_HEADING = re.compile(r"^#.*$", re.MULTILINE)
_COMMENT = re.compile(r"(^| +)#.*$")

NAMED = frozenset({
    "turnstile archive", "turnstile dlq drop", "turnstile erase", "turnstile list", "turnstile migrate",
    "turnstile redrive", "turnstile retry", "turnstile skip", "turnstile status", "turnstile trace",
    "turnstile worker",
})  # fmt: skip
"""Commands that sentences only name and do not ask anybody to run: each needs more words, or would ask for all that there is."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to run. `block` is the language of its block; None: it stands in a sentence."""

    text: str
    block: str | None

    @property
    def program(self) -> str:
        """`sql` for a block that goes to psql."""
        return "sql" if self.block == "sql" else self.text.split()[0]

    @property
    def url(self) -> str:
        """The variable with the URL that psql gets, from the first line of an `sql` block."""
        found = re.match(r'-- in psql "\$(\w+)"', self.text)
        if found is None:
            raise ValueError(f"the block does not say whose psql it is for: {self.text}")
        return found[1]


def read_steps(text: str) -> list[Step]:
    """In the order of the page. An `sql` block is one step, any other line is a step of its own."""
    blocks = list(_BLOCK.finditer(text))
    found = [(block.start(), step) for block in blocks for step in _steps_of(block[1], block[2])]
    for sentence in _IN_A_SENTENCE.finditer(_HEADING.sub(lambda one: " " * len(one[0]), text)):
        if sentence[1] in NAMED or any(block.start() <= sentence.start() < block.end() for block in blocks):
            continue
        found.append((sentence.start(), Step(sentence[1], None)))
    return [step for _, step in sorted(found, key=lambda one: one[0])]


def _steps_of(language: str, block: str) -> Iterator[Step]:
    match language:
        case "sh":
            for line in _CONTINUED.sub(" ", block).splitlines():
                yield Step(_COMMENT.sub("", line).strip(), language)
        case "sql":
            yield Step(block.strip(), language)


def read_placeholders(step: Step) -> set[str]:
    """The words in capitals that the reader fills in; not of SQL, whose keywords look the same."""
    if step.program in {"sql", "psql"}:
        return set()
    return {*re.findall(r"(?<![\w$\"-])[A-Z][A-Z_]+(?![\w-]|=)", step.text)} - CONSTANTS


CONSTANTS = {"FARGATE", "ROTATE", "SET", "INFO", "FLUSHALL"}
"""Values of AWS's options, and commands of Redis."""
