"""`python -m bench.instructions`: how many instructions a turn of `ours` takes, counted by valgrind's callgrind.

On a shared machine the same program takes half as long again from one minute to the next; what it executes stays as it is. So
this shows whether a change of a few hundredths is one. It says nothing of what waits, nor of the kernel, and valgrind makes
everything so slow that batches are fuller than in a drain: compare with another count, and with nothing else.

Two drains, and the difference between them: so the start does not count. Needs valgrind, which `make bench` does not.
"""

import argparse
import compileall
import re
import shutil
import sys
from pathlib import Path

from bench.contenders import OURS
from bench.launch import end_on_sigterm
from bench.running import run
from bench.stage import ROOT, Stage, open_stage

FEW, MANY = 100, 500
WAIT_SECONDS = 600.0
END_SECONDS = 60.0

_TOTAL = re.compile(r"^(?:totals|summary): (\d+)", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / ".bench" / "instructions")
    asked = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("bench.instructions: there is no valgrind here")
    end_on_sigterm()
    # Or the first drain of a fresh checkout would compile the modules, and the difference say too little.
    compileall.compile_dir(ROOT, rx=re.compile(r"/\."), quiet=1)
    asked.out.mkdir(parents=True, exist_ok=True)
    with open_stage(asked.out) as stage:
        few, many = (_count(stage, turns, asked.out / f"{turns}-turns") for turns in (FEW, MANY))
    print(f"ours: {(many - few) / (MANY - FEW) / 1000:,.0f} thousand instructions a turn")


def _count(stage: Stage, turns: int, out: Path) -> int:
    counted = [
        # The order of sets, and so what is executed, would be another in each process.
        *("env", "PYTHONHASHSEED=0"),
        *("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"),
    ]
    with stage.room("instructions") as room:
        stage.sqs.send_all(room.queue_url, OURS.fill(room, turns))
        with run(stage, room, OURS, slots=64, wrapped=counted) as running:
            running.require_handled(turns, WAIT_SECONDS)
            running.require_empty(END_SECONDS)
            # It writes what it has counted when what it looks at has ended.
            running.process.terminate()
            running.process.wait(END_SECONDS)
    found = _TOTAL.search(out.read_text())
    if found is None:
        sys.exit(f"bench.instructions: callgrind has left no total in {out}")
    return int(found[1])


if __name__ == "__main__":
    main()
