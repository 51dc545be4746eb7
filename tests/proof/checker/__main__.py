"""The command line: violations with their stories, a summary, the figures. Exits 0 clean, 1 convicted, 2 unreadable."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.proof.checker import Evidence, Violation, check, figures, load, tell_all

CLEAN, CONVICTED, UNREADABLE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.checker", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, default=20, help="tell at most so many violations in full")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(arguments)
    try:
        evidence = load(options.folder)
    except (OSError, ValueError, TypeError) as error:
        print(f"{options.folder} can't be read: {type(error).__name__}: {error}", file=sys.stderr)
        return UNREADABLE
    violations = check(evidence)
    (_print_json if options.json else _print_text)(evidence, violations, options.limit)
    return CONVICTED if violations else CLEAN


def by_invariant(violations: Sequence[Violation]) -> dict[str, int]:
    return dict(Counter(violation.invariant for violation in violations).most_common())


def _stories(evidence: Evidence, violations: Sequence[Violation]) -> dict[str, str]:
    return tell_all(evidence, [violation.turn_id for violation in violations if violation.turn_id is not None])


def _print_text(evidence: Evidence, violations: list[Violation], limit: int) -> None:
    shown = violations[:limit]
    stories = _stories(evidence, shown)
    for violation in shown:
        print(
            f"{violation.invariant}: {violation.turn_id or violation.session or evidence.terms.name} {violation.claim}"
        )
        if violation.turn_id is not None:
            print(stories.pop(violation.turn_id, "  (its story is told above)"))
        print()
    if len(violations) > len(shown):
        print(f"... and {len(violations) - len(shown)} more\n")
    for name, value in figures(evidence).items():
        told = ", ".join(f"{key} {many}" for key, many in value.items()) if isinstance(value, dict) else value
        print(f"{name.replace('_', ' '):<24} {told}")
    summary = ", ".join(f"{name}: {many}" for name, many in by_invariant(violations).items())
    print(f"{evidence.terms.name} (seed {evidence.terms.seed}): {summary or 'clean'}")


def _print_json(evidence: Evidence, violations: list[Violation], limit: int) -> None:
    shown = violations[:limit]
    stories = _stories(evidence, shown)
    told: dict[str, Any] = {
        "name": evidence.terms.name,
        "seed": evidence.terms.seed,
        "violations": [asdict(one) | {"story": stories.get(one.turn_id or "")} for one in shown],
        "by_invariant": by_invariant(violations),
        "figures": figures(evidence),
    }
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    sys.exit(main())
