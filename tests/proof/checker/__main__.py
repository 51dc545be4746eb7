"""The command line: violations with their stories, a summary, the figures. Exits 0 clean, 1 convicted, 2 unreadable."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.proof.checker import Evidence, Violation, check, figures, load, stories_of

CLEAN, CONVICTED, UNREADABLE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.checker", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, default=20, help="print at most so many violations in full")
    options = parser.parse_args(arguments)
    try:
        evidence = load(options.folder)
    except (OSError, ValueError, TypeError) as error:
        print(f"{options.folder} can't be read: {type(error).__name__}: {error}", file=sys.stderr)
        return UNREADABLE
    violations = check(evidence)
    _report(evidence, violations, options.limit)
    return CONVICTED if violations else CLEAN


def _report(evidence: Evidence, violations: list[Violation], limit: int) -> None:
    shown = violations[:limit]
    stories = stories_of(evidence, [violation.turn_id for violation in shown])
    for violation in shown:
        subject = violation.turn_id or violation.session or evidence.terms.name
        print(f"{violation.invariant}: {subject} {violation.claim}")
        if violation.turn_id is not None:
            print(stories.pop(violation.turn_id, "  (its story is above)"))
        print()
    if len(violations) > len(shown):
        print(f"... and {len(violations) - len(shown)} more\n")
    for name, value in figures(evidence).items():
        text = ", ".join(f"{key} {many}" for key, many in value.items()) if isinstance(value, dict) else value
        print(f"{name.replace('_', ' '):<24} {text}")
    convicted = Counter(violation.invariant for violation in violations).most_common()
    summary = ", ".join(f"{invariant}: {many}" for invariant, many in convicted)
    print(f"{evidence.terms.name} (seed {evidence.terms.seed}): {summary or 'clean'}")


if __name__ == "__main__":
    sys.exit(main())
