"""The doctor's report, as lines or as a JSON document, and its exit code."""

from collections import Counter
from dataclasses import asdict
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from turnstile.ops.doctor.check import Severity
from turnstile.ops.doctor.run_checks import DoctorFinding, Findings
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.terminal.folding import fold, whole
from turnstile.ops.terminal.output import plural, short_time
from turnstile.ops.why.decision import MARGIN_SECONDS
from turnstile.telemetry.terminal_text import harmless

SHOWN = 10
"""Most findings of one code in the lines. The document has all findings."""


def is_complete(findings: Findings) -> bool:
    """Whether all checks could run."""
    return not any(one.check.blinding for one in findings)


def exit_code(findings: Findings) -> ExitCode:
    """UNAVAILABLE if a check could not run, FINDINGS if a problem was not repaired, otherwise OK."""
    if not is_complete(findings):
        return ExitCode.UNAVAILABLE
    return ExitCode.OK if all(one.fixed for one in findings) else ExitCode.FINDINGS


def as_document(findings: Findings, checked_at: datetime) -> dict[str, Any]:
    return {
        "checked_at": checked_at,
        "complete": is_complete(findings),
        "findings": [_as_fields(one) for one in findings],
    }


def _as_fields(one: DoctorFinding) -> dict[str, Any]:
    check = {"severity": one.check.severity, "meaning": one.check.meaning, "advice": one.advice}
    return asdict(one) | check | {"remedy": one.check.remedy}


def as_lines(findings: Findings, columns: int) -> list[str]:
    """The lines for people: the first findings of each code, and how many more there are. `findings` are ordered by code."""
    lines = []
    for _, group in groupby(findings, key=lambda one: one.code):
        first, *others = group
        lines += [line for one in [first, *others][:SHOWN] for line in _describe(one, columns)]
        if (more := len(others) + 1 - SHOWN) > 0:
            lines.append(f"{first.check.severity.value:<7}  {first.code}  and {more} more (--json shows all)")
    return lines


def _describe(one: DoctorFinding, columns: int) -> list[str]:
    head = [
        f"{one.check.severity.value:<7}",
        one.code,
        one.subject,
        f"session {one.session_id} of tenant {one.tenant_id}" if one.session_id else "",
        f"since {short_time(one.since)}" if one.since else "",
    ]
    meaning = ": ".join(filter(None, (one.check.meaning, one.detail)))
    return [
        *fold("  ".join(whole(_on_one_line(part)) for part in head if part), columns),
        *fold(_on_one_line(meaning), columns, indent="  "),
        *fold(_on_one_line(f"-> {_advice(one)}"), columns, indent="  ", further="     "),
    ]


def _on_one_line(text: str) -> str:
    return harmless(text.replace("\n", " "))


def _advice(one: DoctorFinding) -> str:
    match one.fixed:
        case True:
            return "repaired"
        case False:
            return f"not repaired; {one.advice}"
        case None:
            return (
                f"{one.advice}; or `turnstile doctor --fix` ({one.check.remedy.value})"
                if one.check.remedy
                else one.advice
            )


def where_pages_are(findings: Findings, folder: Path) -> str | None:
    """The line that says where to find the pages that the advice names; None if it names none. `folder` is that of
    `docs`."""
    names_one = any("docs/" in one.advice for one in findings if not one.fixed)
    return f"the pages of docs/ are in {folder}" if names_one else None


def summary(findings: Findings) -> str:
    """The last line of the report: counts by severity."""
    severities = Counter(one.check.severity for one in findings)
    counts = [plural(severities[severity], severity.value) for severity in Severity if severities[severity]]
    fixed = sum(one.fixed is True for one in findings)
    return (
        ", ".join([*counts, *([f"{fixed} repaired"] if fixed else [])])
        or f"nothing found (delays of less than {MARGIN_SECONDS:g} s are not reported)"
    )
