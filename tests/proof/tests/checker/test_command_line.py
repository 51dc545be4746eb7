"""`python -m tests.proof.checker FOLDER`: what it prints, and its exit code."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.proof.checker.__main__ import main
from tests.proof.checker.evidence import FILES, Evidence
from tests.proof.tests.checker.conviction import amended, answered, play


def write(evidence: Evidence, folder: Path) -> Path:
    (folder / "run.json").write_text(json.dumps(asdict(evidence.terms)))
    for name in FILES:
        lines = [json.dumps(asdict(record)) + "\n" for record in getattr(evidence, name)]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    return folder


def out_of_order() -> Evidence:
    return play("submit b, submit a, claim a, settle a, claim b, settle b").rest()


def test_a_clean_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(answered().rest(), tmp_path)

    assert main([str(folder)]) == 0
    assert capsys.readouterr().out.endswith("scene (seed 1): clean\n")


def test_a_convicted_run_is_reported_with_its_stories_and_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(out_of_order(), tmp_path)

    assert main([str(folder)]) == 1
    report = capsys.readouterr().out
    assert "I5: a seq 2 was claimed while seq 1 (b) of its session was open" in report
    assert "n=3 PENDING -> RUNNING seq=2" in report
    assert "turns                    in all 2, SUCCEEDED 2\n" in report
    assert report.splitlines()[-1].startswith("scene (seed 1): I5: ")


def test_the_limit_shortens_the_stories_and_not_the_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = amended(out_of_order(), "turns", lambda row: row.turn_id == "b", status="FAILED")
    folder = write(evidence, tmp_path)

    assert main([str(folder), "--limit", "1"]) == 1
    report = capsys.readouterr().out
    assert report.count("\nturn ") == 1
    assert all(f"{invariant}: " in report.splitlines()[-1] for invariant in ("I2", "I3", "I5"))


def test_a_folder_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "can't be read" in capsys.readouterr().err


def test_evidence_that_is_no_evidence(tmp_path: Path) -> None:
    folder = write(answered().rest(), tmp_path)
    (folder / "audit.jsonl").write_text("{}\n")

    assert main([str(folder)]) == 2


def test_a_last_line_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    folder = write(answered().rest(), tmp_path)
    with (folder / "runs.jsonl").open("a") as file:
        file.write('{"at": 101.0, "wha')

    assert main([str(folder)]) == 0
