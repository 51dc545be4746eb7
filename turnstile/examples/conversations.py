"""Reads the bundled conversations: one user remark per line. Blank lines and lines that start with `#` are skipped."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "conversations"


@dataclass(frozen=True)
class Conversation:
    name: str
    remarks: tuple[str, ...]

    def transcript(self, replies: Sequence[str]) -> str:
        """The text for people and for golden files: `> ` and the remark, then the reply."""
        pairs = zip(self.remarks, replies, strict=True)
        return "".join(f"> {remark}\n{reply}\n" for remark, reply in pairs)


def load() -> list[Conversation]:
    """All conversations, in the order of their names."""
    return [_read(path) for path in sorted(FOLDER.glob("*.txt"))]


def _read(path: Path) -> Conversation:
    # Not splitlines(): it would also split at U+2028 and other characters that a remark may contain.
    lines = [line.strip() for line in path.read_text("utf-8").split("\n")]
    return Conversation(path.stem, tuple(line for line in lines if line and not line.startswith("#")))
