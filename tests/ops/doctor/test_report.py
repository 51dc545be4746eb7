"""The report of the doctor, and its exit code."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.conftest import ROOT
from turnstile.ops.doctor.check import Remedy
from turnstile.ops.doctor.checks import CHECKS
from turnstile.ops.doctor.doctor_command import DOCS
from turnstile.ops.doctor.repair import plan
from turnstile.ops.doctor.report import as_document, as_lines, exit_code, summary, where_pages_are
from turnstile.ops.doctor.run_checks import DoctorFinding
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.terminal.output import print_json

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
LOST = DoctorFinding(
    code="running-past-lease", subject="7", turn_id="7", tenant_id="t", session_id="s", since=NOW, detail="worker w"
)


def found(code: str, subject: str = "x", **fields: Any) -> DoctorFinding:
    return DoctorFinding(code=code, subject=subject, **fields)


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([], ExitCode.OK),
        ([found("no-worker")], ExitCode.FINDINGS),
        ([found("session-stuck", fixed=True)], ExitCode.OK),
        ([found("session-stuck", fixed=False)], ExitCode.FINDINGS),
        ([found("session-stuck", fixed=True), found("no-worker")], ExitCode.FINDINGS),
        ([found("no-worker"), found("service-unreachable")], ExitCode.UNAVAILABLE),
        ([found("not-looked-at")], ExitCode.UNAVAILABLE),
    ],
)
def test_the_exit_code_depends_on_the_findings_that_are_left(findings: list[DoctorFinding], code: ExitCode) -> None:
    assert exit_code(findings) is code


WIDE = 10_000


def test_a_finding_has_the_subject_and_the_time_then_the_meaning_then_the_advice() -> None:
    assert "\n".join(as_lines([LOST], 100)) == snapshot("""\
error    running-past-lease  7  session s of tenant t  since 2026-11-21 12:00:00Z
  its lease ran out, and no worker has taken the turn over: worker w
  -> see `turnstile why 7`; check that a worker and a relay run; the log says takeover.forbidden
     while renewals fail; or `turnstile doctor --fix` (wake)\
""")
    assert "\n".join(as_lines([replace(LOST, fixed=True)], 100)) == snapshot("""\
error    running-past-lease  7  session s of tenant t  since 2026-11-21 12:00:00Z
  its lease ran out, and no worker has taken the turn over: worker w
  -> repaired\
""")
    assert "\n".join(as_lines([replace(LOST, fixed=False)], 100)) == snapshot("""\
error    running-past-lease  7  session s of tenant t  since 2026-11-21 12:00:00Z
  its lease ran out, and no worker has taken the turn over: worker w
  -> not repaired; see `turnstile why 7`; check that a worker and a relay run; the log says
     takeover.forbidden while renewals fail\
""")


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal_and_no_command_is_broken(columns: int) -> None:
    turn = "01a214c4-a864-7a91-afe4-27de4645b80c"
    of_each = [
        DoctorFinding(
            code=one.code, subject=turn, turn_id=turn, queue="chat", since=NOW, tenant_id="acme", session_id="s" * 40
        )
        for one in CHECKS
    ]

    text = "\n".join(as_lines(of_each, columns))

    # One statement is longer than 80 columns by itself.
    assert max(len(line) for line in text.splitlines() if "ALTER DATABASE" not in line) <= columns
    for finding in of_each:
        for command in re.findall("`[^`]+`", finding.advice):
            assert command in text


def test_ten_findings_of_a_code_are_shown_and_the_rest_is_counted() -> None:
    lines = as_lines([*(found("session-stuck", str(number)) for number in range(13)), found("redrive-policy")], WIDE)

    heads = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[1] for line in heads] == ["session-stuck"] * 11 + ["redrive-policy"]
    assert "and 3 more" in heads[10]


def test_control_characters_are_replaced() -> None:
    text = "".join(as_lines([found("not-looked-at", "\x1b[2J\n", detail="\x1b[2J\n")], WIDE))

    assert not {"\x1b", "\n"} & set(text)


def test_the_document_has_the_same_fields_for_every_finding(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(as_document([LOST, found("service-unreachable")], NOW))
    document = json.loads(capsys.readouterr().out)

    assert list(document) == ["checked_at", "complete", "findings"]
    names = "severity code subject tenant_id session_id turn_id queue since meaning detail advice remedy fixed"
    assert [sorted(finding) for finding in document["findings"]] == [sorted(names.split())] * 2
    assert document["complete"] is False


@pytest.mark.parametrize(
    ("finding", "advice"),
    [
        (
            found("queue-paused", "chat", queue="chat"),
            "`turnstile queues resume chat`, once the reason for the pause is gone",
        ),
        (found("no-worker", "chat", queue="chat"), "start a worker: `turnstile worker --queue chat`"),
        (replace(LOST, code="session-halted"), "`turnstile retry 7` or `turnstile skip 7`"),
        (found("idle-in-transaction-timeout", "prod"), "in psql: `ALTER DATABASE prod SET"),
        (found("dead-letters-waiting", "chat", queue="chat"), "`turnstile dlq list --queue chat`, then"),
    ],
)
def test_the_commands_of_an_advice_can_be_pasted(finding: DoctorFinding, advice: str) -> None:
    assert finding.advice.startswith(advice)
    assert f"-> {advice}" in as_lines([finding], WIDE)[-1]


def test_the_summary_counts_by_severity() -> None:
    assert summary([]) == "nothing found (delays of less than 10 s are not reported)"
    assert summary([found("no-worker"), found("redrive-policy")]) == "1 error, 1 warning"
    assert summary([found("session-stuck", fixed=True)]) == "1 error, 1 repaired"


def test_only_findings_with_a_remedy_are_planned() -> None:
    assert plan([LOST, found("session-stuck"), found("no-worker")]) == {Remedy.WAKE.value: 2}


def test_the_runbook_lists_every_code_in_order() -> None:
    page = (ROOT / "docs" / "runbooks" / "doctor.md").read_text("utf-8")

    listed = re.findall(r"^\| `([a-z-]+)` \| (error|warning) \|.*\| (?:`(\w+)`)? *\|$", page, re.MULTILINE)

    assert listed == [(one.code, one.severity.value, one.remedy.value if one.remedy else "") for one in CHECKS]


def test_the_report_says_where_the_pages_are_that_its_advice_names(tmp_path: Path) -> None:
    named, unnamed = found("redis-slow"), found("no-worker")

    assert where_pages_are([unnamed, named], tmp_path) == f"the pages of docs/ are in {tmp_path}"
    assert where_pages_are([unnamed], tmp_path) is None
    assert where_pages_are([], tmp_path) is None
    assert (DOCS / "runbooks" / "redis-down.md").is_file()
