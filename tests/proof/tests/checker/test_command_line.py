"""`python -m tests.proof.checker FOLDER`: its exit code, by which every run of the proof is judged."""

import json
from dataclasses import asdict
from pathlib import Path

from tests.proof.checker.__main__ import main
from tests.proof.checker.evidence import FILES, Evidence
from tests.proof.tests.checker.conviction import answered, play


def write(evidence: Evidence, folder: Path) -> Path:
    (folder / "run.json").write_text(json.dumps(asdict(evidence.terms)))
    for name in FILES:
        lines = [json.dumps(asdict(record)) + "\n" for record in getattr(evidence, name)]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    return folder


def test_a_clean_run(tmp_path: Path) -> None:
    assert main([str(write(answered().rest(), tmp_path))]) == 0


def test_a_convicted_run(tmp_path: Path) -> None:
    out_of_order = play("submit b, submit a, claim a, settle a, claim b, settle b")

    assert main([str(write(out_of_order.rest(), tmp_path))]) == 1


def test_evidence_that_cannot_be_read(tmp_path: Path) -> None:
    folder = write(answered().rest(), tmp_path)
    (folder / "audit.jsonl").write_text("{}\n")

    assert main([str(folder)]) == 2
