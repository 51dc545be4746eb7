"""Submit: one API process, as many clients as it takes. Compared with a plain route that does the same two steps."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from bench.accounting import own_cpu_seconds
from bench.contenders import HANDMADE, OURS
from bench.experiment import Column, Experiment, Sample, Samples, Scale, TargetResult, at_least, at_most, percentile
from bench.http_load import load
from bench.http_server import HttpServer, serve_api, serve_plain_route
from bench.launch import NotMeasuredError
from bench.stage import Room, Stage

CLIENTS = 64
SECONDS = 10.0
WARM_UP_SECONDS = 2.0
SHARE = 0.7
"""The load at which both are timed, as a share of what the plain route can do."""
PLAIN = "plain route"
Serve = Callable[[Room, Mapping[str, str]], AbstractContextManager[HttpServer]]


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    if missing := HANDMADE.missing():
        yield Sample(contender=PLAIN, note=f"not run: {missing}")
        return
    try:
        # The plain route first: at which load both are timed follows from what it can do.
        plain = _measure(stage, scale, PLAIN, serve_plain_route, None)
        yield plain
        yield _measure(stage, scale, OURS.name, serve_api, SHARE * plain.figures["per_second"])
    except NotMeasuredError as error:
        yield Sample(contender=PLAIN, note=str(error))


def _measure(stage: Stage, scale: Scale, name: str, serve: Serve, per_second: float | None) -> Sample:
    with stage.room("submit") as room, serve(room, OURS.environment(room, 64, 0.0)) as server:
        load(server.port, clients=CLIENTS, seconds=scale.seconds(WARM_UP_SECONDS))
        cpu, own = server.tree.cpu_seconds(), own_cpu_seconds()
        most = load(server.port, clients=CLIENTS, seconds=scale.seconds(SECONDS))
        cpu, own = server.tree.cpu_seconds() - cpu, own_cpu_seconds() - own
        if not most.milliseconds:
            raise NotMeasuredError(f"{name}: no request was accepted")
        rate = per_second or SHARE * most.per_second
        paced = load(server.port, clients=CLIENTS, seconds=scale.seconds(SECONDS), per_second=rate)
    return Sample(
        contender=name,
        figures={
            "per_second": most.per_second,
            "cpu_ms": 1000 * cpu / len(most.milliseconds),
            "rate": rate,
            "p50": percentile(paced.milliseconds, 0.5),
            "p99": percentile(paced.milliseconds, 0.99),
            "client_cores": own / most.seconds,
        },
        note=f"{most.refused + paced.refused} refused" if most.refused + paced.refused else None,
    )


def judge(samples: Samples) -> list[TargetResult]:
    ours, plain = (OURS.name, ""), (PLAIN, "")
    return [
        at_least("submits a second, of the plain route", samples.ratio("per_second", ours, plain), 5),
        at_most("p99 at the same load, of the plain route", samples.ratio("p99", ours, plain), 1),
    ]


EXPERIMENT = Experiment(
    name="submit",
    measures=f"submits a second of one API process, {CLIENTS} clients; milliseconds at {SHARE:.0%} of what the plain route does",
    columns=(
        Column("per_second", "submits/s"),
        Column("cpu_ms", "CPU ms/submit", 3),
        Column("rate", "timed at, /s"),
        Column("p50", "p50 ms", 1),
        Column("p99", "p99", 1),
        Column("client_cores", "client's cores", 2),
    ),
    run=run,
    judge=judge,
)
