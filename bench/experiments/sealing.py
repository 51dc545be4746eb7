"""Sealing: the same drain with contents that are stored as they are, and with sealed ones. What a seal costs a turn."""

import base64
import json
import secrets
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from bench.contenders import OURS
from bench.drains import Work, drain
from bench.emulated_sqs import Entry
from bench.experiment import Column, Experiment, Sample, Samples, Scale, TargetResult, at_least, at_most
from bench.running import attempt
from bench.stage import Room, Stage
from bench.workloads import fill_turns
from turnstile.sealing.contents import PLAIN, Contents
from turnstile.sealing.data_keys import parse_keys

TURNS = 12_000
SLOTS = 64
WORDS = "What a user says in a chat has some two hundred words, and the reply as many. " * 12
"""Nearly a kilobyte."""
OFF, ON = "plain", "sealed"


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    work = Work(count=scale.turns(TURNS), slots=SLOTS)
    for case in (OFF, ON):
        yield attempt(OURS, partial(_measure, stage, case, work), case)


def _measure(stage: Stage, case: str, work: Work) -> dict[str, float]:
    contents, settings = PLAIN, {"BENCH_REPLY": WORDS}
    if case == ON:
        text = json.dumps({"seal_with": "k", "keys": {"k": base64.b64encode(secrets.token_bytes(32)).decode()}})
        file = stage.folder / "sealing.json"
        file.write_text(text)
        contents = Contents(parse_keys(text))
        settings["TURNSTILE_SEALING_KEYS_FILE"] = str(file)

    def fill(room: Room, count: int) -> list[Entry]:
        return fill_turns(room, count, contents=contents, words=WORDS)

    return drain(stage, replace(OURS, settings=settings), work, fill)


def judge(samples: Samples) -> list[TargetResult]:
    def ratio(figure: str) -> float | None:
        return samples.ratio(figure, (OURS.name, ON), (OURS.name, OFF))

    return [
        at_least("throughput with sealed contents, of plain", ratio("turns_per_second"), 0.9),
        at_most("CPU a turn with sealed contents, of plain", ratio("worker_cpu_ms"), 1.1),
    ]


EXPERIMENT = Experiment(
    name="sealing",
    measures=f"a drain, {SLOTS} in flight, with inputs and replies of {len(WORDS)} characters",
    columns=(
        Column("worker_cpu_ms", "CPU ms/turn", 4),
        Column("postgres_cpu_ms", "Postgres ms/turn", 4),
        Column("turns_per_second", "turns/s"),
        Column("rss_mb", "RSS MB"),
        Column("other_cores", "others' cores", 2),
    ),
    run=run,
    judge=judge,
)
