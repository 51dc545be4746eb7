"""Stream: from `ctx.emit` to the byte at the client, by one API process and one worker, for each wire."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from bench.accounting import own_cpu_seconds
from bench.contenders import OURS
from bench.experiment import Column, Experiment, Sample, Samples, Scale, TargetResult, at_most, percentile
from bench.http_server import serve_api
from bench.launch import NotMeasuredError
from bench.programs.speak import PER_SECOND
from bench.running import attempt
from bench.running import run as start
from bench.stage import Stage
from bench.stream_readers import read_streams

WIRES = ("turnstile", "ai-sdk", "ag-ui")
STREAMS = (1, 200, 1000)
TARGET = 200
SECONDS = 10.0
WAIT_SECONDS = 120.0
SPEAKER = replace(OURS, settings={"TURNSTILE_HANDLER": "bench.programs.speak:respond"})


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    for streams in STREAMS:
        for wire in WIRES:
            wanted = max(1, streams // 20) if scale.quick else streams
            case = f"{wire}, {streams:,} streams"
            yield attempt(SPEAKER, partial(_measure, stage, wire, wanted, scale.seconds(SECONDS)), case)


def _measure(stage: Stage, wire: str, streams: int, seconds: float) -> dict[str, float]:
    with ExitStack() as exits:
        room = exits.enter_context(stage.room("stream"))
        # A slot for each, or turns would wait for slots, and not for the stream.
        speaker = replace(SPEAKER, settings={**SPEAKER.settings, "BENCH_SPEAK_SECONDS": str(seconds)})
        api = exits.enter_context(serve_api(room, speaker.environment(room, streams, 0.0)))
        running = exits.enter_context(start(stage, room, speaker, slots=streams))
        running.require_polling(WAIT_SECONDS)
        served, worked, own = api.tree.cpu_seconds(), running.tree.cpu_seconds(), own_cpu_seconds()
        try:
            heard = read_streams(api.port, wire, streams, WAIT_SECONDS)
        except TimeoutError:
            raise NotMeasuredError(f"the streams had not ended after {WAIT_SECONDS:g} s") from None
        served, worked, own = (
            api.tree.cpu_seconds() - served,
            running.tree.cpu_seconds() - worked,
            own_cpu_seconds() - own,
        )
    if heard.refused:
        raise NotMeasuredError(f"{len(heard.refused)} streams were refused: {heard.refused[0]}")
    if (missing := streams * int(PER_SECOND * seconds) - len(heard.words)) > 0:
        raise NotMeasuredError(f"{missing} words did not reach their readers")
    return {
        "p50": percentile(heard.words, 0.5),
        "p99": percentile(heard.words, 0.99),
        "most": max(heard.words),
        "first_byte": percentile(heard.first_bytes, 0.5),
        "first_byte_p99": percentile(heard.first_bytes, 0.99),
        "first_word": percentile(heard.first_words, 0.5),
        "api_cores": served / seconds,
        "worker_cores": worked / seconds,
        "client_cores": own / seconds,
    }


def judge(samples: Samples) -> list[TargetResult]:
    cases = {wire: f"{wire}, {TARGET:,} streams" for wire in WIRES}
    return [
        at_most(f"from emit to the client, p99, {case}", samples.median("p99", OURS.name, case), 100, "ms")
        for case in cases.values()
    ]


EXPERIMENT = Experiment(
    name="stream",
    measures=f"milliseconds from `ctx.emit` to the byte at the client, {PER_SECOND} events a second in each stream, one API and"
    " one worker",
    columns=(
        Column("p50", "p50 ms", 1),
        Column("p99", "p99", 1),
        Column("most", "most", 1),
        Column("first_byte", "POST to first byte, p50 ms", 1),
        Column("first_byte_p99", "p99", 1),
        Column("first_word", "POST to first word, p50 ms", 1),
        Column("api_cores", "API cores", 2),
        Column("worker_cores", "worker cores", 2),
        Column("client_cores", "client's cores", 2),
    ),
    run=run,
    judge=judge,
)
