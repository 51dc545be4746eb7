"""Reads conversations from text files: one user remark per line. Blank lines and lines that start with `#` are skipped."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "conversations"


class ConversationError(ValueError):
    """A conversation folder or file is not usable. The message names it."""


@dataclass(frozen=True)
class Conversation:
    name: str
    remarks: tuple[str, ...]

    def transcript(self, replies: Sequence[str]) -> str:
        """The text for people and for golden files: `> ` and the remark, then the reply."""
        pairs = zip(self.remarks, replies, strict=True)
        return "".join(f"> {remark}\n{reply}\n" for remark, reply in pairs)


def load(folder: Path | str = FOLDER) -> list[Conversation]:
    """All conversations of a folder (`*.txt`), in the order of their names."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ConversationError(f"no such folder of conversations: {folder}")
    conversations = [_read(path) for path in sorted(folder.glob("*.txt"))]
    if not conversations:
        raise ConversationError(f"no conversations (*.txt) in {folder}")
    return conversations


def _read(path: Path) -> Conversation:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConversationError(f"{path}: not UTF-8 at byte {error.start}") from error
    except OSError as error:
        raise ConversationError(f"{path}: cannot be read: {error.strerror}") from error
    if "\0" in text:
        raise ConversationError(f"{path}: contains U+0000")
    # Not splitlines(): it would also split at U+2028 and other characters that a remark may contain.
    lines = [line.strip() for line in text.split("\n")]
    remarks = tuple(line for line in lines if line and not line.startswith("#"))
    if not remarks:
        raise ConversationError(f"{path}: holds no remark, only blank lines or comments")
    return Conversation(path.stem, remarks)
