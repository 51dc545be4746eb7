"""What a doctor's visit looks like: a line for each finding, or one document for programs. Pure."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from turnstile.ops.doctor.findings import Finding, Remedy, Severity
from turnstile.ops.doctor.rules import is_blind
from turnstile.ops.terminal.output import harmless, short_time

_OFFERS = {
    Remedy.WAKE: "--fix wakes it",
    Remedy.SEND_DEAD_LETTER: "--fix sends it",
    Remedy.SWEEP: "--fix deletes it",
    Remedy.UNLOCK: "--fix deletes it",
    Remedy.FORGET_WORKER: "--fix forgets it",
    Remedy.ADVANCE_FENCES: "--fix goes beyond them",
}


def first_of_each(findings: Sequence[Finding], limit: int) -> tuple[list[Finding], dict[str, int]]:
    """At most `limit` findings of each code, and how many more there are of those that have more."""
    seen: Counter[str] = Counter()
    shown = []
    for finding in findings:
        seen[finding.code] += 1
        if seen[finding.code] <= limit:
            shown.append(finding)
    return shown, {code: many - limit for code, many in seen.items() if many > limit}


def as_document(
    findings: Sequence[Finding], *, limit: int, fix: bool, dry_run: bool, checked_at: datetime, failures: Sequence[str]
) -> dict[str, Any]:
    """What programs read. `counts` count all, `findings` has the first `limit` of each code, `more` counts the rest."""
    shown, more = first_of_each(findings, limit)
    severities = Counter(finding.kind.severity.value for finding in findings)
    return {
        "checked_at": checked_at,
        "complete": not is_blind(findings),
        "fix": fix,
        "dry_run": dry_run,
        "counts": {severity.value: severities[severity.value] for severity in Severity},
        "fixed": sum(finding.fixed is True for finding in findings),
        "findings": [finding.as_document() for finding in shown],
        "more": more,
        "failures": list(failures),
    }


def as_lines(findings: Sequence[Finding], *, limit: int) -> list[str]:
    """What people read: severity, code, subject, since when, what it means, what can be done."""
    shown, more = first_of_each(findings, limit)
    lines = []
    for place, finding in enumerate(shown):
        lines.append(as_line(finding))
        last = place + 1 == len(shown) or shown[place + 1].code != finding.code
        if last and finding.code in more:
            lines.append(f"{finding.kind.severity.value:<7}  {finding.code}  and {more[finding.code]} more (--limit)")
    return lines


def as_line(finding: Finding) -> str:
    """One finding in one line; what somebody else wrote (a key, a reason) stays harmless."""
    kind = finding.kind
    session = f"session {finding.tenant_id}/{finding.session_id}" if finding.session_id else ""
    if kind.remedy is not None and finding.fixed is None:
        advice = f"{kind.advice}; {_OFFERS[kind.remedy]}"
    elif finding.fixed is not None:
        advice = "repaired" if finding.fixed else f"not repaired; {kind.advice}"
    else:
        advice = kind.advice
    parts = [
        f"{kind.severity.value:<7}",
        finding.code,
        finding.subject,
        "" if session in finding.subject else session,
        f"since {short_time(finding.since)}" if finding.since else "",
        ": ".join(filter(None, (kind.meaning, finding.detail))),
        f"-> {advice}" if advice else "",
    ]
    return harmless("  ".join(filter(None, parts)).replace("\n", " "))


def summary(findings: Sequence[Finding]) -> str:
    """The last line."""
    if not findings:
        return "nothing found"
    severities = Counter(finding.kind.severity for finding in findings)
    counts = ", ".join(f"{severities[severity]} {severity.value}" for severity in Severity if severities[severity])
    fixed = sum(finding.fixed is True for finding in findings)
    tried = any(finding.fixed is not None for finding in findings)
    return f"{counts}; {fixed} repaired" if tried else counts
