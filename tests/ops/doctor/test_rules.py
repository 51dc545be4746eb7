"""The doctor's judgement and its reports: what counts, what is merely in motion, how it is told, how it ends."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from typer.testing import CliRunner

from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.doctor.environment import SeenWorker
from turnstile.doctor.symptoms import SickTurn, Symptom
from turnstile.ops.cli import app
from turnstile.ops.dead_letters.verdict import ReadLetter, Verdict
from turnstile.ops.doctor import rules as judgement
from turnstile.ops.doctor.collect import Graces
from turnstile.ops.doctor.findings import CATALOGUE, Finding, Remedy, Severity
from turnstile.ops.doctor.repair import plan
from turnstile.ops.doctor.report import as_document, as_line, as_lines, first_of_each, summary
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.terminal.output import print_json
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.message import WakeUp
from turnstile.worker.lock_inspection import HeldLock

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HEALTHY_SOURCE = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": "arn:dlq", "maxReceiveCount": "1000"})}
HEALTHY_DLQ = {"QueueArn": "arn:dlq", "MessageRetentionPeriod": str(14 * 86_400)}


def make_turn(**fields: object) -> SickTurn:
    usual = SickTurn(
        id=UUID(int=7),
        tenant_id="t",
        session_id="s",
        queue="turns",
        status="RUNNING",
        generation=1,
        fence=4,
        attempt=1,
        failures=0,
        crashes=0,
        max_attempts=None,
        worker_id="w",
        send_at=None,
        lease_until=NOW,
        error_class=None,
        since=NOW,
    )
    return replace(usual, **fields)  # type: ignore[arg-type]


def make_lock(taken_as: str = "gone:1", ttl: float | None = 20.0) -> HeldLock:
    return HeldLock("lock:session:{t/s}", "t", "s", taken_as, ttl)


def make_finding(code: str, subject: str = "x", **fields: object) -> Finding:
    return Finding(code=code, subject=subject, **fields)  # type: ignore[arg-type]


def judge(symptom: Symptom, **fields: object) -> Finding:
    return judgement.judge_turn(symptom.value, make_turn(**fields), {})


def test_each_symptom_has_its_code() -> None:
    codes = {symptom: judge(symptom, status="SUCCEEDED", replies=0).code for symptom in Symptom}

    assert set(codes.values()) <= CATALOGUE.keys()
    assert {symptom: code for symptom, code in codes.items() if symptom.value != code} == {
        Symptom.REPLIES_WRONG: "reply-missing"
    }


@pytest.mark.parametrize(
    ("status", "replies", "code"),
    [("SUCCEEDED", 0, "reply-missing"), ("SUCCEEDED", 2, "reply-doubled"), ("FAILED", 1, "reply-unearned")],
)
def test_replies_are_judged_by_the_status(status: str, replies: int, code: str) -> None:
    assert judge(Symptom.REPLIES_WRONG, status=status, replies=replies).code == code


def test_a_halted_session_is_a_warning_that_names_the_commands() -> None:
    finding = judge(Symptom.SESSION_HALTED, status="FAILED", error_class="Boom", waiting=3)

    assert (finding.code, finding.kind.severity, finding.kind.remedy) == ("session-halted", Severity.WARNING, None)
    assert "turnstile retry" in finding.kind.advice
    assert "turnstile skip" in finding.kind.advice
    assert finding.detail == "Boom, 3 turns wait behind it"


@pytest.mark.parametrize(
    ("symptom", "moved"),
    [
        (Symptom.RUNNING_PAST_LEASE, {"lease_until": NOW + timedelta(seconds=30)}),
        (Symptom.RUNNING_PAST_LEASE, {"fence": 5}),
        (Symptom.SEND_OVERDUE, {"send_at": NOW}),
        (Symptom.SESSION_STUCK, {"status": "PENDING"}),
        (Symptom.DEAD_LETTER_OVERDUE, {"generation": 2}),
    ],
)
def test_a_turn_that_has_moved_on_between_the_looks_is_well(symptom: Symptom, moved: dict[str, object]) -> None:
    first, still, second = judge(symptom), judge(symptom), judge(symptom, **moved)

    assert judgement.seen_twice([first], [still]) == [still]
    assert judgement.seen_twice([first], [second]) == []
    assert judgement.seen_twice([], [second]) == []


def test_what_cannot_be_in_motion_counts_at_one_look() -> None:
    second = judge(Symptom.REPLIES_WRONG, status="SUCCEEDED", replies=0)

    assert judgement.seen_twice([], [second]) == [second]


@pytest.mark.parametrize("code", [code for code, kind in CATALOGUE.items() if kind.blinding])
def test_what_hid_something_from_the_second_look_is_always_told(code: str) -> None:
    assert judgement.seen_twice([], [make_finding(code)]) == [make_finding(code)]


@pytest.mark.parametrize(
    ("lock", "running", "living", "codes"),
    [
        (make_lock(), {("t", "s")}, set(), []),
        (make_lock(), set(), {"gone"}, []),
        (make_lock(), set(), {"other"}, ["lock-without-row"]),
        (make_lock("a:b:1"), set(), {"a:b"}, []),
        (make_lock("no token of ours"), set(), set(), ["lock-without-row"]),
        (make_lock(ttl=None), {("t", "s")}, set(), ["lock-for-ever"]),
        (make_lock(ttl=None), set(), {"gone"}, ["lock-for-ever"]),
        (make_lock(ttl=None), set(), set(), ["lock-left-for-ever"]),
    ],
)
def test_a_lock_needs_a_running_turn_or_a_living_worker_and_always_a_time_to_live(
    lock: HeldLock, running: set[tuple[str, str]], living: set[str], codes: list[str]
) -> None:
    assert [finding.code for finding in judgement.judge_locks([lock], running, living)] == codes


def test_only_workers_that_missed_their_heartbeats_are_silent() -> None:
    def seen(worker_id: str, seconds: float) -> SeenWorker:
        return SeenWorker(
            worker_id=worker_id,
            queue="turns",
            host="h",
            pid=1,
            busy=0,
            draining=False,
            seen_at=NOW,
            silent_seconds=seconds,
        )

    found = judgement.judge_workers([seen("late", 51), seen("here", 49)], 50)

    assert [finding.subject for finding in found] == ["late"]


@pytest.mark.parametrize(
    ("source", "dlq", "codes"),
    [
        (HEALTHY_SOURCE, HEALTHY_DLQ, []),
        ({}, HEALTHY_DLQ, ["redrive-policy-missing"]),
        ({"RedrivePolicy": "{"}, HEALTHY_DLQ, ["redrive-policy-missing"]),
        ({"RedrivePolicy": "[]"}, HEALTHY_DLQ, ["redrive-policy-missing"]),
        (HEALTHY_SOURCE, HEALTHY_DLQ | {"QueueArn": "arn:other"}, ["redrive-policy-elsewhere"]),
        (
            {"RedrivePolicy": json.dumps({"deadLetterTargetArn": "arn:dlq", "maxReceiveCount": 5})},
            HEALTHY_DLQ,
            ["redrive-policy-hasty"],
        ),
        (HEALTHY_SOURCE, {"QueueArn": "arn:dlq"}, ["dlq-retention-short"]),
    ],
)
def test_queues_are_judged_by_their_attributes(source: dict[str, str], dlq: dict[str, str], codes: list[str]) -> None:
    assert [finding.code for finding in judgement.judge_queue("turns", source, dlq)] == codes


@pytest.mark.parametrize(
    ("verdict", "status", "code"),
    [
        (Verdict.STILL_DEAD, "FAILED", None),
        (Verdict.OUTLIVED, "SUCCEEDED", "dead-letter-of-succeeded"),
        (Verdict.OUTLIVED, "PENDING", "dead-letter-outlived"),
        (Verdict.MOVED_BY_SQS, "SUCCEEDED", "dead-letter-moved-by-sqs"),
        (Verdict.UNKNOWN_TURN, None, "dead-letter-of-nobody"),
    ],
)
def test_dead_letters_are_judged_by_their_rows(verdict: Verdict, status: str | None, code: str | None) -> None:
    message = ReceivedMessage("m", "", "h", 1, {}, moved_by_sqs=False)

    finding = judgement.judge_letter("turns", ReadLetter(message, WakeUp("t", "s", UUID(int=7))), verdict, status)

    assert (finding.code if finding else None) == code
    # What the sweep deletes is what may be deleted.
    assert (finding is not None and finding.kind.remedy is Remedy.SWEEP) is verdict.is_litter


def test_a_malformed_letter_names_its_message() -> None:
    message = ReceivedMessage("m", "{", "h", 1, {}, moved_by_sqs=False)

    finding = judgement.judge_letter("turns", ReadLetter(message, None), Verdict.MALFORMED, None)

    assert finding is not None
    assert (finding.code, finding.subject, finding.turn_id) == ("dead-letter-malformed", "m", None)


@pytest.mark.parametrize(
    ("theirs", "way"), [(-3.0, "ahead of"), (-1.0, None), (0.5, None), (2.5, None), (4.0, "behind")]
)
def test_clocks_differ_by_what_the_round_trip_does_not_explain(theirs: float, way: str | None) -> None:
    found = judgement.judge_clock(NOW, NOW + timedelta(seconds=theirs), NOW + timedelta(seconds=1))

    assert [finding.detail for finding in found] == ([f"this machine is 3.0 s {way} the database"] if way else [])


def test_a_session_is_not_called_stuck_where_its_head_has_an_illness_of_its_own() -> None:
    overdue = judge(Symptom.SEND_OVERDUE, status="PENDING")
    stuck = judge(Symptom.SESSION_STUCK, status="PENDING")
    other = judge(Symptom.SESSION_STUCK, status="PENDING", id=UUID(int=8))

    codes = [(one.code, one.turn_id) for one in judgement.without_doubles([stuck, overdue, overdue, other])]

    assert codes == [("send-overdue", str(UUID(int=7))), ("session-stuck", str(UUID(int=8)))]


def test_the_worst_comes_first() -> None:
    found = [make_finding("redrive-policy-missing"), make_finding("worker-silent"), make_finding("no-worker")]

    severities = [finding.kind.severity for finding in judgement.without_doubles(found)]

    assert severities == [Severity.ERROR, Severity.WARNING, Severity.INFO]


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([], ExitCode.OK),
        ([make_finding("redrive-policy-missing")], ExitCode.OK),
        ([make_finding("worker-silent")], ExitCode.FINDINGS),
        ([make_finding("worker-silent", fixed=True)], ExitCode.OK),
        ([make_finding("worker-silent", fixed=False)], ExitCode.FINDINGS),
        ([make_finding("worker-silent", fixed=True), make_finding("no-worker")], ExitCode.FINDINGS),
        ([make_finding("no-worker"), make_finding("redis-unreachable")], ExitCode.UNAVAILABLE),
        ([make_finding("not-looked-at")], ExitCode.UNAVAILABLE),
    ],
)
def test_the_exit_code_tells_what_is_left(findings: list[Finding], code: ExitCode) -> None:
    assert judgement.exit_code(findings) is code


def test_each_kind_is_shown_up_to_the_limit_and_the_rest_counted() -> None:
    findings = [make_finding("no-worker", str(number)) for number in range(5)] + [make_finding("worker-silent")]

    shown, more = first_of_each(findings, 2)
    lines = as_lines(findings, limit=2)

    assert [finding.subject for finding in shown] == ["0", "1", "x"]
    assert more == {"no-worker": 3}
    assert [line.split()[1] for line in lines] == ["no-worker", "no-worker", "no-worker", "worker-silent"]
    assert "and 3 more" in lines[2]


def test_a_line_says_what_when_why_and_what_to_do() -> None:
    finding = judge(Symptom.RUNNING_PAST_LEASE)

    line = as_line(finding)

    assert line.startswith(
        "error    running-past-lease  00000000-0000-0000-0000-000000000007  session t/s  since 2026-11-21"
    )
    assert finding.kind.meaning in line
    assert line.endswith("--fix wakes it")
    assert as_line(finding.after(fixed=True)).endswith("-> repaired")
    assert "not repaired" in as_line(finding.after(fixed=False))


def test_a_key_of_somebody_else_can_do_nothing_to_a_terminal() -> None:
    assert "\x1b" not in as_line(make_finding("lock-for-ever", "lock:session:{\x1b[2J/s}\n"))
    assert "\n" not in as_line(make_finding("lock-for-ever", "a\nb"))


def test_the_document_has_the_same_fields_for_every_finding(capsys: pytest.CaptureFixture[str]) -> None:
    findings = [
        judge(Symptom.RUNNING_PAST_LEASE).after(fixed=True),
        make_finding("no-worker"),
        make_finding("redrive-policy-missing"),
    ]

    print_json(as_document(findings, limit=20, fix=True, dry_run=False, checked_at=NOW, failures=[]))
    document = json.loads(capsys.readouterr().out)

    assert {tuple(finding) for finding in document["findings"]} == {
        (
            *("severity", "code", "subject", "tenant_id", "session_id", "turn_id", "queue", "since", "meaning"),
            *("detail", "advice", "remedy", "fixed"),
        )
    }
    assert list(document) == [
        *("checked_at", "complete", "fix", "dry_run", "counts", "fixed", "findings", "more", "failures")
    ]
    assert (document["counts"], document["fixed"]) == ({"error": 2, "warning": 0, "info": 1}, 1)
    assert document["complete"] is True


def test_the_summary_counts_by_severity() -> None:
    assert summary([]) == "nothing found"
    assert summary([make_finding("no-worker"), make_finding("redrive-policy-missing")]) == "1 error, 1 info"
    assert summary([make_finding("worker-silent", fixed=True)]) == "1 warning; 1 repaired"


def test_only_what_has_a_remedy_is_planned() -> None:
    assert plan([make_finding("no-worker"), make_finding("worker-silent"), make_finding("worker-silent", "y")]) == {
        "forget-worker": 2
    }


def test_a_grace_is_longer_than_what_a_healthy_system_takes() -> None:
    settings = Settings(queues=(QueueSettings(name="turns"),))

    graces = Graces.of(settings, 10.0)

    assert graces.past_lease > settings.lease_seconds + settings.takeover_resend_seconds
    assert graces.overdue > settings.relay_stamp_seconds + settings.relay_tick_seconds
    assert graces.stuck > 3 * settings.net_seconds
    assert graces.silent > settings.lease_seconds


def test_the_runbook_tells_every_code() -> None:
    page = (Path(__file__).parents[3] / "docs" / "runbooks" / "doctor.md").read_text("utf-8")

    assert set(re.findall(r"^\| `([a-z-]+)` \| (?:error|warning|info) \|", page, re.MULTILINE)) == CATALOGUE.keys()
    for code, kind in CATALOGUE.items():
        assert f"| `{code}` | {kind.severity.value} |" in page


def test_a_dry_run_without_a_fix_is_refused() -> None:
    result = CliRunner().invoke(app, ["doctor", "--dry-run"])

    assert result.exit_code == ExitCode.USAGE
    assert "--fix" in result.stderr


def test_it_explains_itself_and_its_exit_codes() -> None:
    result = CliRunner().invoke(app, ["doctor", "--help"])

    assert result.exit_code == ExitCode.OK
    assert "5 something is wrong" in " ".join(result.stdout.split())
