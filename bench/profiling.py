"""`python -m bench.profiling`: where the CPU of `ours` goes in a drain, by sampling from outside which thread runs Python.

Only the thread that has the interpreter's lock is counted: a thread that waits, for it or for a response, looks as busy as one
that works. The kernel's part of a send or a receive is therefore missing.
Shares of samples become milliseconds by the CPU that a drain without the profiler took. Three tables: the parts that time is
spent in, the product's own functions with all that they call, and the functions that were running.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from bench import peers
from bench.contenders import OURS
from bench.drains import Work, drain
from bench.launch import end_on_sigterm
from bench.running import run
from bench.stage import ROOT, Stage, open_stage

TURNS = 10_000
SAMPLES_PER_SECOND = 200
SHOWN = 20
WAIT_SECONDS = 300.0

AT_WORK = ("BaseEventLoop.run_forever (", "Thread.run (")
"""What the process has begun with lies above; without one of these it is still beginning."""

PRODUCT = ("(turnstile/",)
PARTS = {
    "log lines": ("(structlog/", "(turnstile/process/logs.py"),
    "Redis": ("(redis/", "(hiredis/"),
    "Postgres": ("(psycopg/", "(psycopg_pool/", "(psycopg_binary/"),
    "SQS": (
        "(botocore/",
        "(boto3/",
        "(urllib3/",
        "(http/client.py",
        "(aiohttp/",
        "(turnstile/backends/sqs/",
    ),
    "the handler": ("(bench/",),
    "the product's own code": PRODUCT,
}
WITHIN = {
    "handing work to threads": ("(concurrent/", "(threading.py"),
    "the event loop": ("(asyncio/", "(selectors.py"),
}
"""Where it belongs to no part."""

Frames = tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.profiling", description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--out", type=Path, default=ROOT / ".bench" / "profile")
    asked = parser.parse_args()
    end_on_sigterm()
    peers.install()
    asked.out.mkdir(parents=True, exist_ok=True)
    stacks_file = asked.out / "stacks"
    stacks_file.unlink(missing_ok=True)
    with open_stage(asked.out) as stage:
        milliseconds = drain(stage, OURS, Work(count=asked.turns))["worker_cpu_ms"]
        _record(stage, asked.turns, stacks_file)
    stacks = [stack for line in stacks_file.read_text().splitlines() if (stack := parse_stack(line))]
    print(f"{milliseconds:.3f} ms of CPU a turn\n")
    views = (("part", part), ("of the product, with what it calls", of_the_product), ("by itself", running_function))
    for title, names in views:
        print(tell(stacks, names, milliseconds, title) + "\n")


def _record(stage: Stage, turns: int, stacks_file: Path) -> None:
    profiler = [
        *(str(peers.PEERS_BIN / "py-spy"), "record", "--format", "raw", "--rate", str(SAMPLES_PER_SECOND)),
        *("--gil", "--nonblocking", "--output", str(stacks_file), "--"),
    ]
    with stage.room("profile") as room:
        stage.sqs.send_all(room.queue_url, OURS.fill(room, turns))
        with run(stage, room, OURS, slots=64, wrapped=profiler) as running:
            running.require_handled(turns, WAIT_SECONDS)
            # It writes when what it looks at has ended, and only then.
            for worker in running.tree.root.children():
                worker.terminate()
            running.process.wait(WAIT_SECONDS)


def parse_stack(line: str) -> tuple[Frames, int] | None:
    """A line of collapsed stacks: frames from the outermost at work, and how often seen; None for the process's start."""
    text, _, count = line.rpartition(" ")
    frames = tuple(_shorten(frame) for frame in text.split(";"))
    begins = [place for place, frame in enumerate(frames) if frame.startswith(AT_WORK)]
    return (frames[begins[0] :], int(count)) if begins else None


def part(frames: Frames) -> Iterable[str]:
    """The part of the innermost frame that belongs to one: the standard library works for its caller."""
    for parts in (PARTS, WITHIN):
        for frame in reversed(frames):
            for name, places in parts.items():
                if any(place in frame for place in places):
                    return (name,)
    return ("other",)


def of_the_product(frames: Frames) -> Iterable[str]:
    return {frame for frame in frames if any(place in frame for place in PRODUCT)}


def running_function(frames: Frames) -> Iterable[str]:
    return frames[-1:]


def tell(
    stacks: Iterable[tuple[Frames, int]], names: Callable[[Frames], Iterable[str]], total: float, title: str
) -> str:
    """The biggest of them, in milliseconds a turn where all stacks together make `total`."""
    seen: Counter[str] = Counter()
    samples = 0
    for frames, count in stacks:
        samples += count
        for name in names(frames):
            seen[name] += count
    rows = [
        f"| {total * count / samples:.3f} | {count / samples:.0%} | `{name}` |"
        for name, count in seen.most_common(SHOWN)
    ]
    return "\n".join([f"| ms/turn | share | {title} |", "|---|---|---|", *rows])


def _shorten(frame: str) -> str:
    """`name (file:line)` without the line, and without the folders above the packages."""
    name, _, place = frame.partition(" (")
    file = place.rstrip(")").rpartition(":")[0] or place.rstrip(")")
    for above in ("site-packages/", f"{ROOT}/", "lib/python3.11/", "lib/python3.12/"):
        file = file.rpartition(above)[2]
    return f"{name} ({file})" if file else name


if __name__ == "__main__":
    main()
