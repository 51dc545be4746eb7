"""What a sabotage is, and how it is done to a copy of the tree."""

from dataclasses import dataclass
from pathlib import Path


class UnfitSabotageError(Exception):
    """The check that a sabotage removes no longer stands there."""


@dataclass(frozen=True, slots=True)
class Sabotage:
    """One small edit that takes a check away."""

    name: str
    file: str
    """Of the product, below `turnstile/`."""
    before: str
    """Text that stands in the file exactly once."""
    after: str
    test: str
    """The file below `tests/` that must fail."""

    def do_to(self, tree: Path) -> str:
        """Edits the file below `tree`. Returns its text of before. Raises UnfitSabotageError."""
        path = tree / "turnstile" / self.file
        text = path.read_text("utf-8")
        if (times := text.count(self.before)) != 1:
            raise UnfitSabotageError(f"{self.name}: {self.file} has {times} times {self.before!r}, not once")
        path.write_text(text.replace(self.before, self.after), "utf-8")
        return text

    def undo_in(self, tree: Path, text: str) -> None:
        (tree / "turnstile" / self.file).write_text(text, "utf-8")
