"""Rewrites the golden transcripts, to be read in the diff before they are committed.

python -m tests.golden.regenerate              those that are there
python -m tests.golden.regenerate 007 031      these (and adds what was not there)
"""

import sys
from pathlib import Path

from turnstile.examples.conversations import load
from turnstile.examples.eliza_engine import replay

FOLDER = Path(__file__).parent / "eliza"


def main(names: list[str]) -> int:
    conversations = {conversation.name: conversation for conversation in load()}
    chosen = names or sorted(path.stem for path in FOLDER.glob("*.txt"))
    if unknown := [name for name in chosen if name not in conversations]:
        print(f"no such conversation: {', '.join(unknown)}", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    for name in chosen:
        conversation = conversations[name]
        path = FOLDER / f"{name}.txt"
        before = path.read_text(encoding="utf-8") if path.exists() else None
        after = conversation.transcript(replay(conversation.remarks))
        path.write_text(after, encoding="utf-8", newline="\n")
        print(f"{name}: {'new' if before is None else 'unchanged' if before == after else 'changed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
